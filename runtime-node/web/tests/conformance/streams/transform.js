// Checks of TransformStream (Streams §6).
import { about, check, equal, rejects, throws } from "../check.js";
import { collect, error1, error2, later, pending } from "../stream-fixtures.js";
export { default } from "../check.js";

const of = (...chunks) => ReadableStream.from(chunks);

about("TransformStream");

check("the constructor takes a transformer and two strategies", () => {
  new TransformStream();
  new TransformStream(undefined, null, null);
  for (const bad of [null, 1, "a"]) throws("TypeError", () => new TransformStream(bad));
  for (const key of ["start", "transform", "flush", "cancel"]) throws("TypeError", () => new TransformStream({ [key]: 1 }), key);
  for (const key of ["readableType", "writableType"]) throws("RangeError", () => new TransformStream({ [key]: "bytes" }));
  const seen = [];
  const spy = (label) => new Proxy({}, { get: (_, key) => void seen.push(`${label}.${String(key)}`) });
  new TransformStream(spy("t"), spy("w"), spy("r"));
  equal(seen, [
    "w.highWaterMark", "w.size", "r.highWaterMark", "r.size", "t.cancel", "t.flush", "t.readableType", "t.start",
    "t.transform", "t.writableType",
  ]);
  equal(TransformStream.length, 0);
});

check("readable and writable are always the same objects", () => {
  const stream = new TransformStream();
  equal([stream.readable instanceof ReadableStream, stream.writable instanceof WritableStream], [true, true]);
  equal([stream.readable === stream.readable, stream.writable === stream.writable], [true, true]);
  equal(Object.keys(TransformStream.prototype), ["readable", "writable"]);
  throws("TypeError", () => Reflect.get(TransformStream.prototype, "readable", {}));
});

check("without a transformer, chunks pass unchanged", async () => {
  const chunks = [1, "a", undefined, null, { a: 1 }];
  const out = await collect(of(...chunks).pipeThrough(new TransformStream()));
  equal(out, chunks);
  equal(out[4] === chunks[4], true);
});

check("a transformer can enqueue any number of chunks for each chunk, and more at the end", async () => {
  const transformer = {
    transform(chunk, controller) {
      equal(this === transformer, true);
      for (let i = 0; i < chunk; i++) controller.enqueue(chunk);
    },
    flush(controller) {
      equal([this === transformer, `${controller}`], [true, "[object TransformStreamDefaultController]"]);
      controller.enqueue("end");
    },
  };
  equal(await collect(of(2, 0, 1, 3).pipeThrough(new TransformStream(transformer))), [2, 2, 1, 3, 3, 3, "end"]);
});

check("a transformer may be asynchronous", async () => {
  let busy = 0;
  const transformer = {
    async start(c) { await later(); c.enqueue("start"); },
    async transform(chunk, c) {
      equal(++busy, 1);
      await later();
      c.enqueue(chunk * 2);
      busy--;
    },
    async flush(c) { await later(); c.enqueue("end"); },
  };
  equal(await collect(of(1, 2, 3).pipeThrough(new TransformStream(transformer))), ["start", 2, 4, 6, "end"]);
});

check("nothing is transformed before the readable side is read", async () => {
  let transformed = 0;
  const stream = new TransformStream({ transform: (chunk, c) => (transformed++, c.enqueue(chunk)) });
  const writer = stream.writable.getWriter();
  equal([writer.desiredSize, await pending(writer.ready)], [1, false]);
  const written = writer.write("a");
  equal([writer.desiredSize, await pending(written), transformed], [0, true, 0]);
  const reader = stream.readable.getReader();
  equal(await reader.read(), { value: "a", done: false });
  await written;
  await writer.ready;
  equal([writer.desiredSize, transformed], [1, 1]);
});

check("chunks are transformed while the readable side has room", async () => {
  let controller;
  const stream = new TransformStream({ start: (c) => void (controller = c) }, { highWaterMark: 1 }, { highWaterMark: 2 });
  equal(controller.desiredSize, 2);
  const writer = stream.writable.getWriter();
  await writer.write("a");
  equal(controller.desiredSize, 1);
  await writer.write("b");
  equal([controller.desiredSize, await pending(writer.write("c"))], [0, true]);
  controller.enqueue("d");
  equal(controller.desiredSize, -1);
});

check("an error of the transformer fails both sides", async () => {
  for (const transform of [() => { throw error1; }, () => Promise.reject(error1)]) {
    const stream = new TransformStream({ transform });
    const writer = stream.writable.getWriter();
    const reader = stream.readable.getReader();
    const read = reader.read();
    await rejects("one", writer.write("a"));
    await rejects("one", read);
    await rejects("one", reader.closed);
    await rejects("one", writer.closed);
    await rejects("one", writer.ready);
  }
  for (const flush of [() => { throw error1; }, () => Promise.reject(error1)]) {
    const stream = new TransformStream({ flush });
    const reader = stream.readable.getReader();
    await rejects("one", stream.writable.close());
    await rejects("one", reader.read());
  }
  throws("one", () => new TransformStream({ start: () => { throw error1; } }));
  const late = new TransformStream({ start: () => Promise.reject(error1) });
  await rejects("one", late.readable.getReader().read());
  await rejects("one", late.writable.getWriter().closed);
});

about("TransformStreamDefaultController");

check("the controller's method error fails both sides", async () => {
  let controller;
  const stream = new TransformStream({ start: (c) => void (controller = c) });
  const writer = stream.writable.getWriter();
  const written = writer.write("a");
  controller.error(error1);
  equal(controller.desiredSize, null);
  throws("TypeError", () => controller.enqueue("b"));
  await rejects("one", written);
  await rejects("one", writer.closed);
  await rejects("one", stream.readable.getReader().read());
});

check("terminate closes the readable side and fails the writable side", async () => {
  let controller;
  const stream = new TransformStream({ start: (c) => void (controller = c) }, undefined, { highWaterMark: 1 });
  const writer = stream.writable.getWriter();
  controller.enqueue("last");
  controller.terminate();
  controller.terminate();
  equal(controller.desiredSize, 0);
  throws("TypeError", () => controller.enqueue("b"));
  await rejects("TypeError", writer.closed);
  await rejects("TypeError", writer.write());
  equal(await collect(stream.readable), ["last"]);
  const within = new TransformStream({ transform: (chunk, c) => (c.enqueue(chunk), c.terminate()) });
  const piped = of(1, 2, 3).pipeTo(within.writable);
  equal(await collect(within.readable), [1]);
  await rejects("TypeError", piped);
});

about("TransformStream");

check("closing does not wait for a reader, and aborting does not wait at all", async () => {
  const events = [];
  const closed = new TransformStream({ flush: () => void events.push("flush") });
  await closed.writable.close();
  equal([events, await collect(closed.readable)], [["flush"], []]);
  const aborted = new TransformStream({ flush: () => void events.push("flushed"), cancel: (reason) => void events.push(reason) });
  await aborted.writable.abort(error1);
  equal(events, ["flush", error1]);
  await rejects("one", aborted.readable.getReader().read());
});

check("canceling the readable side fails the writable side", async () => {
  const events = [];
  const stream = new TransformStream({ cancel: (...args) => void events.push(args), flush: () => void events.push("flush") });
  const writer = stream.writable.getWriter();
  const written = writer.write("a");
  await stream.readable.cancel(error1);
  equal(events, [[error1]]);
  await rejects("one", written);
  await rejects("one", writer.closed);
  await rejects("one", writer.write("b"));
});

check("a failed cancel rejects the call and fails the other side", async () => {
  for (const cancel of [() => { throw error2; }, () => Promise.reject(error2)]) {
    const one = new TransformStream({ cancel });
    await rejects("two", one.readable.cancel(error1));
    await rejects("two", one.writable.getWriter().closed);
    const other = new TransformStream({ cancel });
    await rejects("two", other.writable.abort(error1));
    await rejects("two", other.readable.getReader().closed);
  }
});

check("only the first of cancel, abort and close calls the transformer", async () => {
  const events = [];
  let go;
  const transformer = {
    cancel: (reason) => (events.push(reason), new Promise((resolve) => (go = resolve))),
    flush: () => void events.push("flush"),
  };
  const stream = new TransformStream(transformer);
  await later();
  const canceled = stream.readable.cancel("c");
  const aborted = stream.writable.abort("a");
  await later();
  equal(events, ["c"]);
  go();
  await canceled.catch(() => {});
  await aborted.catch(() => {});
  equal(events, ["c"]);
});

check("cancel rejects with the error that the controller reports during the cancellation", async () => {
  let controller;
  const stream = new TransformStream({
    start: (c) => void (controller = c),
    async cancel() {
      await later();
      controller.error(error2);
    },
  });
  await rejects("two", stream.readable.cancel(error1));
});

check("a strategy that fails on the readable side fails both", async () => {
  const stream = new TransformStream({}, undefined, { highWaterMark: 5, size: () => { throw error1; } });
  const writer = stream.writable.getWriter();
  await later();
  await rejects("one", writer.write("a"));
  await rejects("one", stream.readable.getReader().closed);
});

check("a transformer may fail the stream while it transforms a chunk", async () => {
  const stream = new TransformStream({
    transform(chunk, c) {
      c.enqueue(chunk);
      if (chunk === 2) c.error(error1);
      if (chunk === 2) throws("TypeError", () => c.enqueue(3));
    },
  });
  const writer = stream.writable.getWriter();
  const reader = stream.readable.getReader();
  writer.write(1);
  equal((await reader.read()).value, 1);
  const read = reader.read();
  writer.write(2).catch(() => {});
  equal((await read).value, 2);
  await rejects("one", reader.read());
});

check("a long chain works, and exerts backpressure", async () => {
  let pulled = 0, canceled;
  let stream = new ReadableStream({ pull: (c) => c.enqueue(pulled++), cancel: (reason) => void (canceled = reason) });
  for (let i = 0; i < 20; i++) stream = stream.pipeThrough(new TransformStream({ transform: (x, c) => c.enqueue(x + 1) }));
  const reader = stream.getReader();
  equal([(await reader.read()).value, (await reader.read()).value], [20, 21]);
  await reader.cancel(error1);
  await later();
  await later();
  equal(canceled === error1, true);
  equal(pulled < 60, true);
});

about("TransformStreamDefaultController");

check("the controller's members reject receivers of other types", () => {
  throws("TypeError", () => new TransformStreamDefaultController(), "Illegal constructor");
  const { prototype } = TransformStreamDefaultController;
  equal(Object.keys(prototype), ["desiredSize", "enqueue", "error", "terminate"]);
  for (const key of Object.keys(prototype)) {
    const { get, value } = Object.getOwnPropertyDescriptor(prototype, key);
    throws("TypeError", () => Reflect.apply(get ?? value, {}, []));
  }
});
