// Checks of ReadableStreamDefaultController: the calls of a source, its queue and its errors
// (Streams §4.6).
import { about, check, equal, rejects, throws } from "../check.js";
import { collect, error1, failing, later, of, pending } from "../stream-fixtures.js";
export { default } from "../check.js";

const ticks = async (n) => {
  for (let i = 0; i < n; i++) await undefined;
};

about("ReadableStreamDefaultController");

check("start is called immediately with the controller, and its exception is thrown", () => {
  const source = {
    start(controller, ...rest) {
      equal([this === source, rest.length, Object.prototype.toString.call(controller)], [true, 0, "[object ReadableStreamDefaultController]"]);
      source.started = true;
    },
  };
  new ReadableStream(source);
  equal(source.started, true);
  equal(throws("one", () => new ReadableStream({ start: () => { throw error1; } })) === error1, true);
});

check("a promise of start that is rejected fails the stream", async () => {
  const stream = new ReadableStream({ start: () => Promise.reject(error1) });
  await rejects("one", stream.getReader().read());
  const thenable = new ReadableStream({ start: () => ({ then: (_, reject) => reject(error1) }) });
  await rejects("one", thenable.getReader().read());
});

check("nothing is pulled before start is done", async () => {
  let pulls = 0, go;
  const stream = new ReadableStream({ start: () => new Promise((resolve) => (go = resolve)), pull: () => void pulls++ });
  const read = stream.getReader().read();
  await later();
  equal([pulls, await pending(read)], [0, true]);
  go();
  await later();
  equal(pulls, 1);
});

check("desiredSize is the free size of the queue", async () => {
  let controller;
  const stream = new ReadableStream({ start: (c) => void (controller = c) }, { highWaterMark: 3, size: (x) => x });
  equal(controller.desiredSize, 3);
  controller.enqueue(1);
  equal(controller.desiredSize, 2);
  controller.enqueue(4);
  equal(controller.desiredSize, -2);
  const reader = stream.getReader();
  await reader.read();
  equal(controller.desiredSize, -1);
  await reader.read();
  equal(controller.desiredSize, 3);
  const read = reader.read();
  controller.enqueue(100); // goes to the pending read
  equal([controller.desiredSize, (await read).value], [3, 100]);
  controller.close();
  equal(controller.desiredSize, 0);
  new ReadableStream({ start: (c) => void (controller = c) });
  equal(controller.desiredSize, 1);
  controller.error();
  equal(controller.desiredSize, null);
});

check("a source is pulled while there is room, one pull at a time", async () => {
  let pulls = 0;
  const stream = new ReadableStream({ pull: (c) => c.enqueue(pulls++) }, { highWaterMark: 3 });
  await later();
  equal(pulls, 3);
  const reader = stream.getReader();
  equal((await reader.read()).value, 0);
  await later();
  equal(pulls, 4);
  let running = 0, most = 0, n = 0;
  const slow = new ReadableStream({
    async pull(c) {
      most = Math.max(most, ++running);
      await ticks(3);
      c.enqueue(n++);
      running--;
      if (n === 5) c.close();
    },
  }, { highWaterMark: 2 });
  equal(await collect(slow), [0, 1, 2, 3, 4]);
  equal(most, 1);
});

check("with a highWaterMark of 0, pull is called only for a read", async () => {
  let pulls = 0;
  const stream = new ReadableStream({ pull: (c) => c.enqueue(pulls++) }, { highWaterMark: 0 });
  await later();
  equal(pulls, 0);
  equal((await stream.getReader().read()).value, 0);
  await later();
  equal(pulls, 1);
});

check("a pull that enqueues nothing is not repeated until a read or an enqueue", async () => {
  let pulls = 0, controller;
  const reader = new ReadableStream({ start: (c) => void (controller = c), pull: () => void pulls++ }).getReader();
  await later();
  equal(pulls, 1);
  reader.read();
  await later();
  equal(pulls, 2);
  controller.enqueue(1);
  await later();
  equal(pulls, 3);
});

check("a failing pull fails the stream", async () => {
  for (const pull of [() => { throw error1; }, () => Promise.reject(error1), async () => { throw error1; }]) {
    const reader = new ReadableStream({ pull }).getReader();
    equal((await rejects("one", reader.read())) === error1, true);
    await rejects("one", reader.closed);
  }
});

check("queued chunks can be read after close", async () => {
  let controller;
  const stream = new ReadableStream({ start: (c) => void (controller = c) });
  controller.enqueue(1);
  controller.close();
  throws("TypeError", () => controller.close());
  throws("TypeError", () => controller.enqueue(2));
  equal(controller.desiredSize, 0);
  const reader = stream.getReader();
  equal(await pending(reader.closed), true);
  await reader.read();
  equal(await reader.closed, undefined);
});

check("error discards the queue", async () => {
  let controller;
  const stream = new ReadableStream({ start: (c) => void (controller = c) });
  controller.enqueue(1);
  controller.error(error1);
  controller.error(new Error("another"));
  throws("TypeError", () => controller.enqueue(2));
  throws("TypeError", () => controller.close());
  const reader = stream.getReader();
  await rejects("one", reader.read());
  await rejects("one", reader.closed);
});

check("a size that throws or is invalid fails the stream and enqueue", async () => {
  let controller;
  const start = (c) => void (controller = c);
  for (const [size, name] of [[failing(), "thrown"], [() => NaN, "RangeError"], [() => -1, "RangeError"], [() => Infinity, "RangeError"]]) {
    const stream = new ReadableStream({ start }, { size });
    const reader = stream.getReader();
    const closed = reader.closed;
    throws(name, () => controller.enqueue(1));
    await rejects(name, closed);
  }
  // A chunk for a pending read is not measured.
  const reader = new ReadableStream({ start }, { size: failing() }).getReader();
  const read = reader.read();
  controller.enqueue(1);
  equal((await read).value, 1);
  const sized = new ReadableStream({ start }, { size(...args) { equal([this, args], [undefined, ["x"]]); return 1; } });
  controller.enqueue("x");
  equal((await sized.getReader().read()).value, "x");
});

check("a controller may be called from the functions that it calls", async () => {
  let controller;
  const stream = new ReadableStream({ start: (c) => void (controller = c) }, {
    size() {
      controller.close();
      return 1;
    },
  });
  controller.enqueue("a");
  const reader = stream.getReader();
  equal(await reader.read(), { value: undefined, done: true });
  const erring = new ReadableStream({ start: (c) => void (controller = c) }, { size: () => (controller.error(error1), 1) });
  controller.enqueue("a");
  await rejects("one", erring.getReader().read());
  let depth = 0;
  const nested = new ReadableStream({
    pull(c) {
      if (depth++ < 3) c.enqueue(depth);
      else c.close();
    },
  });
  equal(await collect(nested), [1, 2, 3]);
});

check("controllers cannot be constructed", () => {
  for (const Class of [ReadableStreamDefaultController, ReadableByteStreamController, ReadableStreamBYOBRequest]) {
    throws("TypeError", () => new Class(), "Illegal constructor");
    throws("TypeError", () => new Class({ __proto__: null }, {}), "Illegal constructor");
    equal(Class.length, 0);
  }
  throws("TypeError", () => new ReadableStreamDefaultReader());
  throws("TypeError", () => new ReadableStreamDefaultReader({}));
  throws("TypeError", () => new ReadableStreamBYOBReader(new ReadableStream()));
});
