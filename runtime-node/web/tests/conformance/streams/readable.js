// Checks of ReadableStream and its default reader (Streams §4.2, §4.4).
import { about, check, equal, rejects, throws } from "../check.js";
import { collect, error1, failing, of } from "../stream-fixtures.js";
export { default } from "../check.js";

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

check("canceling calls the source, and closes the stream regardless of the result", async () => {
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

check("canceling discards the queue and resolves pending reads", async () => {
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
