// Checks of asynchronous iteration over a ReadableStream (Streams §4.2.5).
import { about, check, equal, rejects, throws } from "../check.js";
import { collect, error1, failing, of } from "../stream-fixtures.js";
export { default } from "../check.js";

about("ReadableStream");

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
  const canceling = new ReadableStream({ cancel: failing("refused") }).values();
  await rejects("refused", canceling.return());
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
