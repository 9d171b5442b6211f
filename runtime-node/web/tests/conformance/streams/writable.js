// Checks of WritableStream and its writer (Streams §5), and the queuing strategies (§7).
import { about, check, equal, rejects, throws } from "../check.js";
import { error1, later, pending, recorder } from "../stream-fixtures.js";
export { default } from "../check.js";

about("WritableStream");

check("the constructor takes an object and a strategy, and reads their members in order", () => {
  new WritableStream();
  new WritableStream(undefined, null);
  for (const bad of [null, 1, "a"]) throws("TypeError", () => new WritableStream(bad));
  for (const key of ["start", "write", "close", "abort"]) throws("TypeError", () => new WritableStream({ [key]: null }), key);
  for (const type of ["bytes", "", null, 0]) throws("RangeError", () => new WritableStream({ type }));
  for (const bad of [-1, NaN, "a"]) throws("RangeError", () => new WritableStream({}, { highWaterMark: bad }));
  throws("TypeError", () => new WritableStream({}, { size: 1 }));
  const seen = [];
  const spy = (label) => new Proxy({}, { get: (_, key) => void seen.push(`${label}.${String(key)}`) });
  new WritableStream(spy("sink"), spy("strategy"));
  equal(seen, ["strategy.highWaterMark", "strategy.size", "sink.abort", "sink.close", "sink.start", "sink.type", "sink.write"]);
});

check("start is called immediately, and its exception is thrown", async () => {
  const sink = recorder();
  new WritableStream(sink);
  equal(`${sink.controller}`, "[object WritableStreamDefaultController]");
  throws("one", () => new WritableStream({ start: () => { throw error1; } }));
  const writer = new WritableStream({ start: () => Promise.reject(error1) }).getWriter();
  await rejects("one", writer.closed);
  await rejects("one", writer.ready);
  await rejects("one", writer.write());
});

check("nothing is written before start is done", async () => {
  const start = Promise.withResolvers();
  const sink = recorder({ start: () => start.promise });
  const writer = new WritableStream(sink).getWriter();
  const written = writer.write("a");
  await later();
  equal([sink.events, await pending(written)], [[], true]);
  start.resolve();
  await written;
  equal(sink.events, [["write", "a"]]);
});

check("chunks are written one at a time, in order, and then the stream is closed", async () => {
  let busy = 0, most = 0;
  const sink = recorder({
    async write() {
      most = Math.max(most, ++busy);
      await later();
      busy--;
      return "ignored";
    },
    close: () => "ignored",
  });
  const writer = new WritableStream(sink).getWriter();
  const all = [writer.write("a"), writer.write("b"), writer.write(), writer.close()];
  equal(await Promise.all(all), [undefined, undefined, undefined, undefined]);
  equal([sink.events, most], [[["write", "a"], ["write", "b"], ["write", undefined], "close"], 1]);
  equal(await writer.closed, undefined);
});

check("a sink's methods are called on it, with the arguments of the standard", async () => {
  const calls = [];
  const sink = {
    write(...args) { calls.push([this === sink, args.length, `${args[1]}`]); },
    close(...args) { calls.push([this === sink, args.length]); },
  };
  const writer = new WritableStream(sink).getWriter();
  await writer.write("a");
  await writer.close();
  equal(calls, [[true, 2, "[object WritableStreamDefaultController]"], [true, 0]]);
  const aborted = { abort(...args) { calls.push([this === aborted, args]); } };
  await new WritableStream(aborted).abort("why");
  equal(calls[2], [true, ["why"]]);
});

about("WritableStreamDefaultWriter");

check("desiredSize and ready signal backpressure", async () => {
  const write = Promise.withResolvers();
  const writer = new WritableStream({ write: () => write.promise }, { highWaterMark: 3, size: (x) => x }).getWriter();
  await writer.ready;
  equal(writer.desiredSize, 3);
  const { ready } = writer;
  writer.write(2);
  equal([writer.desiredSize, writer.ready === ready], [1, true]);
  writer.write(2);
  equal([writer.desiredSize, writer.ready === ready, await pending(writer.ready)], [-1, false, true]);
  const waiting = writer.ready;
  write.resolve();
  await waiting;
  equal(waiting === writer.ready, true);
  await later();
  equal(writer.desiredSize, 3);
});

check("with a highWaterMark of 0, a writer is never ready, but may write", async () => {
  const sink = recorder();
  const writer = new WritableStream(sink, { highWaterMark: 0 }).getWriter();
  equal([writer.desiredSize, await pending(writer.ready)], [0, true]);
  await writer.write("a");
  equal([sink.events, await pending(writer.ready)], [[["write", "a"]], true]);
});

about("WritableStream");

check("a failed write fails the stream and all later operations", async () => {
  for (const fail of [() => { throw error1; }, () => Promise.reject(error1)]) {
    const sink = recorder({ write: fail });
    const stream = new WritableStream(sink);
    const writer = stream.getWriter();
    const [first, second, closed] = [writer.write("a"), writer.write("b"), writer.close()];
    await rejects("one", first);
    await rejects("one", second);
    await rejects("one", closed);
    await rejects("one", writer.closed);
    await rejects("one", writer.ready);
    await rejects("one", writer.write("c"));
    await rejects("TypeError", writer.close());
    equal([sink.events, writer.desiredSize], [[["write", "a"]], null]);
    equal(await writer.abort(), undefined);
  }
});

check("a failed close fails the stream", async () => {
  for (const close of [() => { throw error1; }, () => Promise.reject(error1)]) {
    const writer = new WritableStream({ close }).getWriter();
    await rejects("one", writer.close());
    await rejects("one", writer.closed);
    await rejects("TypeError", writer.close());
  }
});

check("nothing can be written after the end", async () => {
  const stream = new WritableStream();
  const writer = stream.getWriter();
  const closed = writer.close();
  await rejects("TypeError", writer.write());
  await rejects("TypeError", writer.close());
  await closed;
  await rejects("TypeError", writer.write());
  await rejects("TypeError", writer.close());
  equal([writer.desiredSize, await writer.ready, await writer.abort("late")], [0, undefined, undefined]);
  writer.releaseLock();
  await rejects("TypeError", stream.close());
  equal(await stream.abort(), undefined);
});

check("close resolves a pending ready", async () => {
  const writer = new WritableStream({ write: () => new Promise(() => {}) }).getWriter();
  writer.write("a");
  equal(await pending(writer.ready), true);
  writer.close();
  equal(await writer.ready, undefined);
});

check("a stream can be closed without a writer", async () => {
  const sink = recorder();
  const stream = new WritableStream(sink);
  const closed = stream.close();
  await rejects("TypeError", stream.close());
  equal(await closed, undefined);
  equal(sink.events, ["close"]);
});

check("a size that throws or is invalid fails the stream", async () => {
  for (const [size, name] of [[() => { throw error1; }, "one"], [() => NaN, "RangeError"], [() => -1, "RangeError"], [() => Infinity, "RangeError"]]) {
    const writer = new WritableStream({}, { size }).getWriter();
    await rejects(name, writer.write("a"));
    await rejects(name, writer.closed);
  }
});

about("WritableStreamDefaultWriter");

check("a stream has one writer", async () => {
  const stream = new WritableStream();
  equal(stream.locked, false);
  const writer = stream.getWriter();
  equal(stream.locked, true);
  throws("TypeError", () => stream.getWriter());
  throws("TypeError", () => new WritableStreamDefaultWriter(stream));
  await rejects("TypeError", stream.abort());
  await rejects("TypeError", stream.close());
  const { closed, ready } = writer;
  writer.releaseLock();
  writer.releaseLock();
  equal([stream.locked, writer.closed === closed, writer.ready === ready], [false, true, false]);
  await rejects("TypeError", closed);
  await rejects("TypeError", writer.ready);
  await rejects("TypeError", writer.write());
  await rejects("TypeError", writer.close());
  await rejects("TypeError", writer.abort());
  throws("TypeError", () => writer.desiredSize);
  new WritableStreamDefaultWriter(stream).close();
});

check("chunks of a released writer are still written", async () => {
  const sink = recorder();
  const stream = new WritableStream(sink);
  const writer = stream.getWriter();
  const written = writer.write("a");
  writer.releaseLock();
  await written;
  await stream.close();
  equal(sink.events, [["write", "a"], "close"]);
});

check("a new writer has the state of a stream that has ended", async () => {
  const closed = new WritableStream();
  await closed.close();
  const first = closed.getWriter();
  equal([await first.closed, await first.ready, first.desiredSize], [undefined, undefined, 0]);
  const failed = new WritableStream();
  await failed.abort(error1);
  const second = failed.getWriter();
  await rejects("one", second.closed);
  await rejects("one", second.ready);
  equal(second.desiredSize, null);
});

about("WritableStream");

check("members reject receivers of other types, with a promise if they return one", async () => {
  const promises = new Set(["abort", "close", "write", "closed", "ready"]);
  const writer = new WritableStream().getWriter();
  for (const [Class, other] of [[WritableStream, writer], [WritableStreamDefaultWriter, new WritableStream()], [WritableStreamDefaultController, writer]]) {
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
  equal(Object.keys(WritableStream.prototype), ["locked", "abort", "close", "getWriter"]);
  equal(Object.keys(WritableStreamDefaultWriter.prototype), ["closed", "desiredSize", "ready", "abort", "close", "releaseLock", "write"]);
  equal(Object.keys(WritableStreamDefaultController.prototype), ["signal", "error"]);
  equal([WritableStream.length, WritableStreamDefaultWriter.length, WritableStreamDefaultController.length], [0, 1, 0]);
  throws("TypeError", () => new WritableStreamDefaultController(), "Illegal constructor");
  throws("TypeError", () => new WritableStreamDefaultWriter());
  throws("TypeError", () => new WritableStreamDefaultWriter({}));
  equal(`${new WritableStream()}`, "[object WritableStream]");
});

about("CountQueuingStrategy");

check("strategies measure chunks", () => {
  const count = new CountQueuingStrategy({ highWaterMark: 4 });
  const bytes = new ByteLengthQueuingStrategy({ highWaterMark: "5" });
  equal([count.highWaterMark, bytes.highWaterMark], [4, 5]);
  equal([count.size({}), bytes.size(new Uint8Array(3)), bytes.size({ byteLength: "x" })], [1, 3, "x"]);
  equal([count.size.name, count.size.length, bytes.size.name, bytes.size.length], ["size", 0, "size", 1]);
  equal(count.size === new CountQueuingStrategy({ highWaterMark: 0 }).size, true);
  throws("TypeError", () => bytes.size());
  for (const Strategy of [CountQueuingStrategy, ByteLengthQueuingStrategy]) {
    throws("TypeError", () => new Strategy());
    throws("TypeError", () => new Strategy(1));
    throws("TypeError", () => new Strategy({}));
    equal(Number.isNaN(new Strategy({ highWaterMark: {} }).highWaterMark), true);
    equal([Strategy.length, Object.keys(Strategy.prototype)], [1, ["highWaterMark", "size"]]);
    for (const key of ["highWaterMark", "size"]) throws("TypeError", () => Reflect.get(Strategy.prototype, key, {}));
  }
});
