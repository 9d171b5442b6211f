// ReadableStream, its default reader and its default controller (Streams §4).
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

const error1 = Object.assign(new Error("one"), { name: "one" });
const later = (ms = 0) => new Promise((resolve) => setTimeout(resolve, ms));
const ticks = async (n) => {
  for (let i = 0; i < n; i++) await undefined;
};
const failing = (name = "thrown") => () => {
  throw Object.assign(new Error(name), { name });
};
const pending = async (promise) => {
  const mark = {};
  return (await Promise.race([promise, later().then(() => mark)])) === mark;
};
const collect = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
};
const of = (...chunks) =>
  new ReadableStream({
    start(c) {
      for (const chunk of chunks) c.enqueue(chunk);
      c.close();
    },
  });

about("ReadableStream");

check("the constructor takes an object and a strategy, and reads their members in order", () => {
  new ReadableStream();
  new ReadableStream(undefined, undefined);
  new ReadableStream({}, null);
  for (const bad of [null, 1, "a", Symbol()]) throws("TypeError", () => new ReadableStream(bad));
  throws("TypeError", () => new ReadableStream({}, 1));
  const seen = [];
  const spy = (label) => new Proxy({}, { get: (_, key) => void seen.push(`${label}.${String(key)}`) });
  new ReadableStream(spy("source"), spy("strategy"));
  equal(seen, [
    "strategy.highWaterMark", "strategy.size", "source.autoAllocateChunkSize", "source.cancel", "source.pull",
    "source.start", "source.type",
  ]);
  throws("TypeError", () => ReadableStream());
  equal([ReadableStream.length, ReadableStream.name], [0, "ReadableStream"]);
});

check("members of a source must be functions, and its type is bytes or undefined", () => {
  for (const key of ["start", "pull", "cancel"]) {
    for (const bad of [null, 1, {}]) throws("TypeError", () => new ReadableStream({ [key]: bad }), key);
  }
  throws("TypeError", () => new ReadableStream({ type: "byte" }));
  throws("TypeError", () => new ReadableStream({ type: null }));
  throws("TypeError", () => new ReadableStream({ autoAllocateChunkSize: -1 }));
  new ReadableStream({ type: { toString: () => "bytes" } });
  throws("TypeError", () => new ReadableStream({}, { size: 1 }));
  for (const bad of [-1, NaN, "a", {}]) throws("RangeError", () => new ReadableStream({}, { highWaterMark: bad }));
  new ReadableStream({}, { highWaterMark: Infinity });
  new ReadableStream({}, { highWaterMark: "4" });
});

about("ReadableStreamDefaultController");

check("start is called at once with the controller, and its exception is thrown", () => {
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

check("a start that fails later fails the stream", async () => {
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

about("ReadableStreamDefaultReader");

check("chunks are read in order, and then the end", async () => {
  const reader = of("a", undefined, null, 3).getReader();
  equal(await reader.read(), { value: "a", done: false });
  equal(await reader.read(), { value: undefined, done: false });
  equal(await reader.read(), { value: null, done: false });
  equal(await reader.read(), { value: 3, done: false });
  equal(await reader.read(), { value: undefined, done: true });
  equal(await reader.read(), { value: undefined, done: true });
  equal(await reader.closed, undefined);
});

check("results are ordinary objects with their members in order", async () => {
  const result = await of(1).getReader().read();
  equal([Object.getPrototypeOf(result) === Object.prototype, Object.keys(result)], [true, ["value", "done"]]);
  equal(Object.getOwnPropertyDescriptor(result, "done"), { value: false, writable: true, enumerable: true, configurable: true });
});

check("pending reads get chunks in order", async () => {
  let controller;
  const reader = new ReadableStream({ start: (c) => void (controller = c) }).getReader();
  const reads = [reader.read(), reader.read(), reader.read()];
  controller.enqueue("a");
  controller.enqueue("b");
  controller.close();
  equal(await Promise.all(reads), [{ value: "a", done: false }, { value: "b", done: false }, { value: undefined, done: true }]);
});

about("ReadableStreamDefaultController");

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

check("a pull that enqueues nothing is not repeated until something happens", async () => {
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

check("a pull that fails fails the stream", async () => {
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

about("ReadableStreamDefaultReader");

check("a stream has one reader", async () => {
  const stream = of(1, 2);
  equal(stream.locked, false);
  const reader = stream.getReader();
  equal(stream.locked, true);
  throws("TypeError", () => stream.getReader());
  throws("TypeError", () => new ReadableStreamDefaultReader(stream));
  await rejects("TypeError", stream.cancel());
  throws("TypeError", () => stream.tee());
  reader.releaseLock();
  equal(stream.locked, false);
  reader.releaseLock();
  await rejects("TypeError", reader.read());
  await rejects("TypeError", reader.cancel());
  await rejects("TypeError", reader.closed);
  equal(await new ReadableStreamDefaultReader(stream).read(), { value: 1, done: false });
});

check("getReader accepts one mode", () => {
  throws("TypeError", () => new ReadableStream().getReader({ mode: "bytes" }));
  throws("TypeError", () => new ReadableStream().getReader({ mode: null }));
  throws("TypeError", () => new ReadableStream().getReader({ mode: "byob" }));
  throws("TypeError", () => new ReadableStream().getReader("byob"));
  new ReadableStream().getReader({ mode: undefined });
  new ReadableStream().getReader(null);
});

check("a read of a released reader rejects, and the next reader gets the chunks", async () => {
  let controller;
  const stream = new ReadableStream({ start: (c) => void (controller = c) });
  const reader = stream.getReader();
  const { closed } = reader;
  const read = reader.read();
  reader.releaseLock();
  await rejects("TypeError", read);
  await rejects("TypeError", closed);
  equal(closed === reader.closed, true);
  controller.enqueue(1);
  equal((await stream.getReader().read()).value, 1);
});

check("closed is replaced if a reader is released after the end", async () => {
  const stream = of();
  const reader = stream.getReader();
  const { closed } = reader;
  equal(closed === reader.closed, true);
  await closed;
  reader.releaseLock();
  equal(closed === reader.closed, false);
  await rejects("TypeError", reader.closed);
});

about("ReadableStream");

check("cancelling calls the source, and closes the stream whatever the result", async () => {
  const reasons = [];
  const source = { cancel(...args) { reasons.push([this === source, args]); return "ignored"; } };
  const stream = new ReadableStream(source);
  equal(await stream.cancel("why"), undefined);
  equal(reasons, [[true, ["why"]]]);
  equal(await stream.cancel(), undefined);
  equal(reasons.length, 1);
  equal(await stream.getReader().read(), { value: undefined, done: true });
  for (const cancel of [() => { throw error1; }, () => Promise.reject(error1)]) {
    const reader = new ReadableStream({ cancel }).getReader();
    await rejects("one", reader.cancel());
    equal(await reader.closed, undefined);
  }
  equal(await new ReadableStream().cancel(), undefined);
  const failed = new ReadableStream({ start: (c) => c.error(error1) });
  await rejects("one", failed.cancel());
});

check("cancelling discards the queue and resolves pending reads", async () => {
  let controller;
  const stream = new ReadableStream({ start: (c) => void (controller = c) });
  const reader = stream.getReader();
  const read = reader.read();
  await reader.cancel();
  equal(await read, { value: undefined, done: true });
  throws("TypeError", () => controller.enqueue(1));
  throws("TypeError", () => controller.close());
  controller.error(error1);
  equal(await reader.read(), { value: undefined, done: true });
  const full = of(1, 2, 3);
  await full.cancel();
  equal(await collect(full), []);
});

about("ReadableStreamDefaultController");

check("a controller can be called again from within what it calls", async () => {
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

about("ReadableStream");

check("members reject receivers of other types, with a promise if they return one", async () => {
  const stream = new ReadableStream();
  const reader = new ReadableStream().getReader();
  const promises = new Set(["cancel", "pipeTo", "read", "closed"]);
  for (const [Class, other] of [[ReadableStream, reader], [ReadableStreamDefaultReader, stream], [ReadableStreamDefaultController, stream]]) {
    for (const key of Object.keys(Class.prototype)) {
      const { get, value } = Object.getOwnPropertyDescriptor(Class.prototype, key);
      for (const self of [{}, undefined, 1, other, Class.prototype]) {
        const call = () => Reflect.apply(get ?? value, self, []);
        if (promises.has(key)) await rejects("TypeError", call());
        else throws("TypeError", call);
      }
    }
  }
});

check("interfaces have the shape that Web IDL gives them", () => {
  equal(Object.keys(ReadableStream.prototype), ["locked", "cancel", "getReader", "pipeThrough", "pipeTo", "tee", "values"]);
  equal(["cancel", "getReader", "pipeThrough", "pipeTo", "tee", "values"].map((key) => ReadableStream.prototype[key].length), [0, 0, 1, 1, 0, 0]);
  equal(Object.keys(ReadableStream), ["from"]);
  equal(ReadableStream.from.length, 1);
  equal(Object.keys(ReadableStreamDefaultReader.prototype), ["closed", "cancel", "read", "releaseLock"]);
  equal(Object.keys(ReadableStreamDefaultController.prototype), ["desiredSize", "close", "enqueue", "error"]);
  equal(ReadableStreamDefaultReader.length, 1);
  const { prototype } = ReadableStream;
  equal(prototype[Symbol.asyncIterator] === prototype.values, true);
  equal(Object.getOwnPropertyDescriptor(prototype, Symbol.asyncIterator).enumerable, false);
  equal(`${new ReadableStream()}`, "[object ReadableStream]");
});

check("a stream can be iterated over, which reads it to its end and releases it", async () => {
  const stream = of(1, 2, 3);
  equal(await collect(stream), [1, 2, 3]);
  equal(stream.locked, false);
  const failed = new ReadableStream({ start: (c) => (c.enqueue(1), c.error(error1)) });
  await rejects("one", collect(failed));
  equal(failed.locked, false);
});

check("leaving an iteration cancels the stream, unless preventCancel is set", async () => {
  const reasons = [];
  const source = () => ({ start: (c) => c.enqueue(1), cancel: (...args) => void reasons.push(args) });
  const stream = new ReadableStream(source());
  for await (const chunk of stream) {
    equal([chunk, stream.locked], [1, true]);
    break;
  }
  equal([reasons, stream.locked], [[[undefined]], false]);
  const kept = new ReadableStream(source());
  for await (const chunk of kept.values({ preventCancel: true })) break;
  equal([reasons.length, kept.locked], [1, false]);
  await rejects("one", (async () => {
    for await (const chunk of new ReadableStream(source())) throw error1;
  })());
  equal(reasons.length, 2);
});

check("an iterator resolves its promises in the order of the calls", async () => {
  let controller;
  const stream = new ReadableStream({ start: (c) => void (controller = c) });
  const iterator = stream.values();
  const answers = [];
  const note = (label) => (result) => answers.push([label, result]);
  const all = [
    iterator.next().then(note("next")), iterator.next().then(note("next")), iterator.return("r").then(note("return")),
    iterator.next().then(note("after")),
  ];
  controller.enqueue(1);
  controller.enqueue(2);
  await Promise.all(all);
  equal(answers, [
    ["next", { value: 1, done: false }], ["next", { value: 2, done: false }], ["return", { value: "r", done: true }],
    ["after", { value: undefined, done: true }],
  ]);
  equal(await iterator.return("again"), { value: "again", done: true });
  equal(stream.locked, false);
});

check("an iterator awaits chunks that are promises", async () => {
  const chunks = [Promise.resolve(1), { then: (resolve) => resolve(2) }, { then: 3 }];
  const out = await collect(of(...chunks));
  equal([out[0], out[1], out[2] === chunks[2]], [1, 2, true]);
  await rejects("one", collect(of(Promise.reject(error1))));
  await rejects("one", collect(of({ get then() { throw error1; } })));
  equal((await of(chunks[1]).getReader().read()).value === chunks[1], true);
});

check("an iterator is finished after the first error", async () => {
  const stream = new ReadableStream({ start: (c) => c.error(error1) });
  const iterator = stream[Symbol.asyncIterator]();
  await rejects("one", iterator.next());
  equal(await iterator.next(), { value: undefined, done: true });
  const cancelling = new ReadableStream({ cancel: failing("refused") }).values();
  await rejects("refused", cancelling.return());
});

check("asynchronous iterators have the shape that Web IDL specifies", async () => {
  const iterator = new ReadableStream().values();
  const prototype = Object.getPrototypeOf(iterator);
  equal(Object.keys(prototype), ["next", "return"]);
  equal([prototype.next.length, prototype.return.length], [0, 1]);
  equal(prototype[Symbol.toStringTag], "ReadableStream AsyncIterator");
  equal(Object.getPrototypeOf(prototype) === Object.getPrototypeOf(Object.getPrototypeOf(async function* () {}).prototype), true);
  equal(iterator[Symbol.asyncIterator]() === iterator, true);
  equal(Object.hasOwn(prototype, "constructor"), false);
  await rejects("TypeError", prototype.next.call({}));
  await rejects("TypeError", prototype.return.call(undefined));
  throws("TypeError", () => new ReadableStream().values(1));
});

check("the result of read uses neither array iterators nor Promise.prototype.then", async () => {
  const { then } = Promise.prototype;
  const stream = of(1);
  Promise.prototype.then = failing("then");
  let result;
  try {
    result = stream.getReader().read();
  } finally {
    Promise.prototype.then = then;
  }
  equal(await result, { value: 1, done: false });
});


check("subclasses of a stream are streams", async () => {
  class Mine extends ReadableStream {
    constructor() {
      super({ start: (c) => (c.enqueue("mine"), c.close()) });
    }
    all() {
      return collect(this);
    }
  }
  const mine = new Mine();
  equal([mine instanceof ReadableStream, mine instanceof Mine, await mine.all()], [true, true, ["mine"]]);
});
