// Checks of tee() of default and of byte streams, and ReadableStream.from() (Streams §4.2.4).
import { about, check, equal, rejects, throws } from "../check.js";
import { bytes, collect, error1, later, pending } from "../stream-fixtures.js";
export { default } from "../check.js";

about("ReadableStream");

check("both branches get all chunks, as the same objects", async () => {
  const chunk = {};
  const stream = ReadableStream.from([1, chunk]);
  const branches = stream.tee();
  equal([branches.length, Array.isArray(branches), stream.locked], [2, true, true]);
  equal(branches.every((branch) => branch instanceof ReadableStream), true);
  const [a, b] = await Promise.all(branches.map(collect));
  equal([a[0], b[0], a[1] === chunk, b[1] === chunk], [1, 1, true, true]);
});

check("one branch may be read before the other", async () => {
  const [first, second] = ReadableStream.from([1, 2, 3]).tee();
  equal(await collect(first), [1, 2, 3]);
  equal(await collect(second), [1, 2, 3]);
});

check("an error reaches both branches", async () => {
  let controller;
  const [first, second] = new ReadableStream({ start: (c) => void (controller = c) }).tee();
  const reads = [first.getReader().read(), second.getReader().closed];
  await later();
  controller.error(error1);
  for (const read of reads) await rejects("one", read);
});

check("a stream is canceled when both branches are, with both reasons", async () => {
  let reasons = null;
  const stream = new ReadableStream({ cancel: (given) => ((reasons = given), "ignored") });
  const [first, second] = stream.tee();
  const canceled = first.cancel("a");
  equal([await pending(canceled), reasons], [true, null]);
  equal(await second.cancel("b"), undefined);
  equal([await canceled, reasons], [undefined, ["a", "b"]]);
  const [third, fourth] = new ReadableStream({ cancel: () => { throw error1; } }).tee();
  const both = [fourth.cancel("d"), third.cancel("c")];
  for (const promise of both) await rejects("one", promise);
});

check("one branch continues if the other is canceled, and its end resolves the cancellation", async () => {
  let controller;
  const [first, second] = new ReadableStream({ start: (c) => void (controller = c) }).tee();
  const canceled = first.cancel();
  controller.enqueue(1);
  controller.close();
  equal(await collect(second), [1]);
  equal(await canceled, undefined);
});

check("the source is pulled if either branch has room", async () => {
  let pulls = 0;
  const stream = new ReadableStream({ pull: (c) => c.enqueue(pulls++) }, { highWaterMark: 0 });
  const [first, second] = stream.tee();
  await later();
  equal(pulls, 1); // each branch holds one chunk
  const reader = first.getReader();
  await reader.read();
  await reader.read();
  await later();
  equal(pulls, 3);
  equal((await second.getReader().read()).value, 0);
});

check("an error does not overtake an earlier chunk", async () => {
  let controller;
  const [first] = new ReadableStream({ start: (c) => void (controller = c) }).tee();
  const read = first.getReader().read();
  await later();
  controller.enqueue("a");
  controller.error(error1);
  // The branches get a chunk in a microtask, and do not get an error any earlier.
  equal(await read.then((r) => r.value, (e) => e.name), "a");
});

check("the branches of a byte stream are byte streams with separate memory", async () => {
  const stream = new ReadableStream({
    type: "bytes",
    start(c) {
      c.enqueue(bytes(1, 2, 3));
      c.close();
    },
  });
  const [first, second] = stream.tee();
  const reader = first.getReader({ mode: "byob" });
  const { value } = await reader.read(new Uint8Array(2));
  equal(value, bytes(1, 2));
  value.fill(9);
  const other = (await second.getReader().read()).value;
  equal([other, other.buffer === value.buffer], [bytes(1, 2), false]);
  equal((await reader.read(new Uint8Array(5))).value, bytes(3));
  const end = await reader.read(new Uint8Array(5));
  equal([end.done, end.value], [true, bytes()]);
});

check("the source fills the view of a branch's reader directly", async () => {
  const seen = [];
  const stream = new ReadableStream({
    type: "bytes",
    pull(c) {
      const { view } = c.byobRequest;
      seen.push(view.byteLength);
      view[0] = 7;
      c.byobRequest.respond(1);
    },
  });
  const [first, second] = stream.tee();
  const { value, done } = await first.getReader({ mode: "byob" }).read(new Uint8Array(4));
  equal([value, done, seen], [bytes(7), false, [4]]);
  equal((await second.getReader().read()).value, bytes(7));
});

check("the branches of a byte stream end, fail and are canceled like other branches", async () => {
  let controller;
  const make = (source = {}) => new ReadableStream({ type: "bytes", start: (c) => void (controller = c), ...source }).tee();
  let [first, second] = make();
  const waiting = first.getReader({ mode: "byob" }).read(new Uint8Array(3));
  const other = second.getReader().read();
  await later();
  controller.close();
  controller.byobRequest?.respond(0);
  const end = await waiting;
  equal([end.done, end.value, (await other).done], [true, bytes(), true]);
  [first, second] = make();
  const failing = [first.getReader({ mode: "byob" }).read(new Uint8Array(3)), second.getReader().read()];
  await later();
  controller.error(error1);
  for (const read of failing) await rejects("one", read);
  let reasons;
  [first, second] = make({ cancel: (given) => void (reasons = given) });
  await Promise.all([second.cancel("b"), first.cancel("a")]);
  equal(reasons, ["a", "b"]);
  [first, second] = make();
  const reader = first.getReader({ mode: "byob" });
  const canceled = reader.cancel();
  controller.enqueue(bytes(1));
  controller.close();
  equal(await collect(second), [bytes(1)]);
  await canceled;
});

check("readers of both kinds may take turns on branches", async () => {
  let n = 0;
  const [first, second] = new ReadableStream({ type: "bytes", pull: (c) => c.enqueue(bytes(n++, n++)) }).tee();
  const byob = first.getReader({ mode: "byob" });
  const plain = second.getReader();
  equal((await byob.read(new Uint8Array(1))).value, bytes(0));
  equal((await plain.read()).value.length > 0, true);
  byob.releaseLock();
  const again = first.getReader();
  equal((await again.read()).value[0], 1);
  equal((await plain.read()).value.length > 0, true);
});

check("from creates a stream from a sync iterable, and awaits its promises", async () => {
  equal(await collect(ReadableStream.from([1, 2, 3])), [1, 2, 3]);
  equal(await collect(ReadableStream.from(new String("aé"))), ["a", "é"]);
  equal(await collect(ReadableStream.from(new Set([1]))), [1]);
  equal(await collect(ReadableStream.from([Promise.resolve(1), 2])), [1, 2]);
  equal(await collect(ReadableStream.from([])), []);
});

check("from creates a stream from an async iterable", async () => {
  async function* numbers() {
    yield 1;
    await later();
    yield 2;
  }
  equal(await collect(ReadableStream.from(numbers())), [1, 2]);
  equal(await collect(ReadableStream.from(ReadableStream.from([1, 2]))), [1, 2]);
  const both = { [Symbol.asyncIterator]: numbers, [Symbol.iterator]: () => { throw error1; } };
  equal(await collect(ReadableStream.from(both)), [1, 2]);
  const sync = { [Symbol.asyncIterator]: null, [Symbol.iterator]: () => [3][Symbol.iterator]() };
  equal(await collect(ReadableStream.from(sync)), [3]);
});

check("from rejects values that are not iterable", () => {
  for (const bad of [undefined, null, 1, "ab", {}, () => {}, { [Symbol.iterator]: 1 }, { [Symbol.asyncIterator]: {} }, { [Symbol.iterator]: () => 1 }]) {
    throws("TypeError", () => ReadableStream.from(bad));
  }
  throws("TypeError", () => ReadableStream.from());
  throws("one", () => ReadableStream.from({ [Symbol.asyncIterator]: () => { throw error1; } }));
});

check("from requests one value at a time, on demand", async () => {
  let asked = 0;
  const iterable = { [Symbol.asyncIterator]: () => ({ next: async () => ({ value: asked++, done: false }) }) };
  const stream = ReadableStream.from(iterable);
  await later();
  equal(asked, 0);
  const reader = stream.getReader();
  equal(await reader.read(), { value: 0, done: false });
  await later();
  equal(asked, 1);
});

check("canceling a stream from an iterable calls return of the iterator", async () => {
  const calls = [];
  const iterator = {
    next: async () => ({ value: 1, done: false }),
    return(...args) { calls.push([this === iterator, args]); return {}; },
  };
  const from = (iterator) => ReadableStream.from({ [Symbol.asyncIterator]: () => iterator });
  await from(iterator).cancel("why");
  equal(calls, [[true, ["why"]]]);
  equal(await from({ next() {} }).cancel(), undefined);
  await rejects("TypeError", from({ next() {}, return: () => 1 }).cancel());
  await rejects("TypeError", from({ next() {}, return: 1 }).cancel());
  await rejects("one", from({ next() {}, return: () => { throw error1; } }).cancel());
  await rejects("one", from({ next() {}, get return() { throw error1; } }).cancel());
  const sync = { next: () => ({ value: 1, done: false }), return: (reason) => (calls.push(reason), { value: Promise.reject(error1) }) };
  await rejects("one", ReadableStream.from({ [Symbol.iterator]: () => sync }).cancel("r"));
  equal(calls[1], "r");
});

check("a failing iterator fails the stream", async () => {
  const from = (next) => collect(ReadableStream.from({ [Symbol.asyncIterator]: () => ({ next }) }));
  await rejects("one", from(() => { throw error1; }));
  await rejects("one", from(() => Promise.reject(error1)));
  await rejects("TypeError", from(() => 1));
  await rejects("one", from(() => ({ get done() { throw error1; } })));
  await rejects("one", from(() => ({ done: false, get value() { throw error1; } })));
  equal(await from(() => ({ done: true, get value() { throw error1; } })), []);
  let returned = 0;
  const sync = { next: () => ({ done: false, value: Promise.reject(error1) }), return: () => (returned++, {}) };
  await rejects("one", collect(ReadableStream.from({ [Symbol.iterator]: () => sync })));
  equal(returned, 1);
});

check("from reads the next method once", async () => {
  let gets = 0, n = 0;
  const iterator = {
    get next() {
      gets++;
      return () => ({ value: n, done: n++ === 3 });
    },
  };
  equal(await collect(ReadableStream.from({ [Symbol.iterator]: () => iterator })), [0, 1, 2]);
  equal(gets, 1);
});
