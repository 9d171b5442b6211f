import Stream, { Duplex, PassThrough, Readable, Transform, Writable, addAbortSignal, compose, finished, getDefaultHighWaterMark, isErrored, isReadable, pipeline, promises } from "node:stream";
import { arrayBuffer, blob, buffer, json, text } from "node:stream/consumers";
import { finished as finishedPromise, pipeline as pipelinePromise } from "node:stream/promises";
import * as web from "node:stream/web";
import EventEmitter, { once } from "node:events";
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

about("node:stream");

const tick = () => new Promise((resolve) => setTimeout(resolve));
const collect = async (stream) => {
  const all = [];
  for await (const chunk of stream) all.push(typeof chunk === "object" && chunk !== null && chunk.buffer ? chunk.toString() : chunk);
  return all;
};
/** Returns a list to which the events of a stream are appended. */
const events = (stream, ...types) => {
  const seen = [];
  for (const type of types) stream.on(type, (value) => seen.push(value instanceof Error ? `${type} ${value.message}` : type));
  return seen;
};
/** Returns a slow sink that records its chunks. */
const slow = (options = {}) => {
  const seen = [];
  const writable = new Writable({
    ...options,
    write(chunk, encoding, callback) {
      seen.push(chunk.toString());
      setTimeout(callback);
    },
  });
  return Object.assign(writable, { seen });
};

// ---- The module

check("the module is the class from which all streams inherit", () => {
  equal([Stream.Stream === Stream, Stream.Readable === Readable, Stream.promises === promises, Stream.pipeline === pipeline], [true, true, true, true]);
  equal([new Readable() instanceof Stream, new Writable() instanceof Stream, new Readable() instanceof EventEmitter], [true, true, true]);
  equal([new Stream() instanceof EventEmitter, promises.pipeline === pipelinePromise], [true, true]);
});

check("a duplex stream is an instance of both, and others are of one", () => {
  const duplex = new PassThrough();
  equal([duplex instanceof Transform, duplex instanceof Duplex, duplex instanceof Readable, duplex instanceof Writable], [true, true, true, true]);
  equal([new Readable() instanceof Writable, new Writable() instanceof Readable, new Readable() instanceof Duplex], [false, false, false]);
  class Own extends Writable {}
  equal([new Own() instanceof Own, new Writable() instanceof Own, duplex instanceof Own], [true, false, false]);
});

check("constructors work without new, and for constructor functions that inherit from them", () => {
  equal([Readable() instanceof Readable, Writable() instanceof Writable, Transform() instanceof Transform, PassThrough() instanceof PassThrough], [true, true, true, true]);
  function Old() { Readable.call(this, { objectMode: true }); }
  Object.setPrototypeOf(Old.prototype, Readable.prototype);
  Old.prototype._read = function () { this.push(1); this.push(null); };
  return collect(new Old()).then((all) => equal(all, [1]));
});

check("highWaterMark counts bytes, or objects in object mode", () => {
  equal([new Readable().readableHighWaterMark, new Writable({ objectMode: true }).writableHighWaterMark], [getDefaultHighWaterMark(false), getDefaultHighWaterMark(true)]);
  equal([getDefaultHighWaterMark(true), new Readable({ highWaterMark: 3 }).readableHighWaterMark], [16, 3]);
  const duplex = new Duplex({ readableHighWaterMark: 1, writableHighWaterMark: 2, readableObjectMode: true });
  equal([duplex.readableHighWaterMark, duplex.writableHighWaterMark, duplex.readableObjectMode, duplex.writableObjectMode], [1, 2, true, false]);
  equal(throws("TypeError", () => new Readable({ highWaterMark: -1 })).code, "ERR_INVALID_ARG_VALUE");
});

// ---- Readable

check("pushed chunks are read in flowing mode", async () => {
  const readable = new Readable({ read() {} });
  const seen = [];
  readable.on("data", (chunk) => seen.push(chunk.toString()));
  equal(readable.readableFlowing, true);
  readable.push("a");
  readable.push(new Uint8Array([98]));
  readable.push("Yw==", "base64");
  readable.push(null);
  await once(readable, "end");
  equal([seen, readable.readableEnded, readable.readable], [["a", "b", "c"], true, false]);
});

check("in paused mode, read returns all buffered data, or as much as requested", async () => {
  const readable = new Readable({ read() {} });
  readable.push("hello ");
  readable.push("world");
  equal([readable.readableLength, readable.read(3).toString(), readable.read(100), readable.read(5).toString()], [11, "hel", null, "lo wo"]);
  readable.push("!");
  readable.push(null);
  equal([readable.read().toString(), readable.read()], ["rld!", null]);
  await once(readable, "end");
});

check("readable is emitted when data is available, and at the end", async () => {
  const pieces = ["one", "two", null];
  const readable = new Readable({ read() { this.push(pieces.shift()); } });
  const seen = [];
  readable.on("readable", () => {
    let chunk;
    while ((chunk = readable.read()) !== null) seen.push(chunk.toString());
  });
  await once(readable, "end");
  equal(seen.join(""), "onetwo");
});

check("push returns false when the buffer is full", () => {
  const readable = new Readable({ highWaterMark: 3, read() {} });
  equal([readable.push("ab"), readable.push("c"), readable.push("d")], [true, false, false]);
  const objects = new Readable({ objectMode: true, highWaterMark: 2, read() {} });
  equal([objects.push({}), objects.push(0), objects.readableLength], [true, false, 2]);
});

check("read is called until the buffer reaches highWaterMark", async () => {
  let count = 0;
  const readable = new Readable({ highWaterMark: 4, read() { count++; this.push("x"); } });
  readable.read(0);
  await tick();
  equal([count, readable.readableLength], [4, 4]);
});

check("in object mode, chunks are unchanged, except null", async () => {
  const pieces = [0, "", false, { a: 1 }, null];
  const readable = new Readable({ objectMode: true, read() { this.push(pieces.shift()); } });
  equal(await collect(readable), [0, "", false, { a: 1 }]);
});

check("an encoding converts chunks to strings, even if a character is split between two", async () => {
  const readable = new Readable({ read() {} });
  readable.setEncoding("utf8");
  equal(readable.readableEncoding, "utf8");
  const bytes = new TextEncoder().encode("né€");
  for (const byte of bytes) readable.push(new Uint8Array([byte]));
  readable.push(null);
  equal((await collect(readable)).join(""), "né€");
  const hex = new Readable({ encoding: "hex", read() {} });
  hex.push("az");
  equal(hex.read(), "617a");
});

check("unshift puts a chunk back", () => {
  const readable = new Readable({ read() {} });
  readable.push("world");
  readable.unshift("hello ");
  equal(readable.read().toString(), "hello world");
});

check("pause and resume stop and restart the flow", async () => {
  const readable = Readable.from(["a", "b", "c"]);
  const seen = [];
  equal([readable.isPaused(), readable.readableFlowing], [false, null]);
  readable.on("data", (chunk) => {
    seen.push(chunk);
    readable.pause();
    setTimeout(() => {
      seen.push("-");
      readable.resume();
    });
  });
  const order = events(readable, "pause", "resume");
  await once(readable, "end");
  equal(seen.slice(0, 4), ["a", "-", "b", "-"]);
  equal(order.slice(0, 2), ["resume", "pause"]);
});

check("a push after the end, or of a value that is not a chunk, is an error", async () => {
  const readable = new Readable({ read() {} });
  readable.push(null);
  readable.push("late");
  const [error] = await once(readable, "error");
  equal([error.code, readable.destroyed], ["ERR_STREAM_PUSH_AFTER_EOF", true]);
  const other = new Readable({ read() {} });
  other.push(7);
  equal((await once(other, "error"))[0].code, "ERR_INVALID_ARG_TYPE");
});

check("a stream without read, or with one that throws, emits an error", async () => {
  const readable = new Readable();
  readable.read();
  equal((await once(readable, "error"))[0].code, "ERR_METHOD_NOT_IMPLEMENTED");
  const thrower = new Readable({ read() { throw new RangeError("no"); } });
  thrower.resume();
  equal((await once(thrower, "error"))[0].message, "no");
});

check("destroy closes a stream once, with its error", async () => {
  const order = [];
  const readable = new Readable({ read() {}, destroy(error, callback) { order.push(`destroy ${error.message}`); callback(error); } });
  readable.on("error", (error) => order.push(`error ${error.message}`)).on("close", () => order.push("close"));
  equal(readable.destroy(new Error("x")) === readable, true);
  readable.destroy(new Error("y"));
  equal([readable.destroyed, readable.push("z"), readable.errored.message, order], [true, false, "x", ["destroy x"]]);
  await tick();
  equal([order, readable.closed, readable.readableAborted], [["destroy x", "error x", "close"], true, true]);
});

check("a stream closes after its end unless autoDestroy is false", async () => {
  const closing = Readable.from(["a"]).resume();
  await once(closing, "close");
  equal(closing.destroyed, true);
  const open = new Readable({ autoDestroy: false, read() { this.push(null); } }).resume();
  await once(open, "end");
  await tick();
  equal(open.destroyed, false);
  const silent = events(new Readable({ emitClose: false, read() { this.push(null); } }).resume(), "end", "close");
  await tick();
  equal(silent, ["end"]);
});

check("construct is called before all other methods", async () => {
  const order = [];
  const readable = new Readable({
    construct(callback) { setTimeout(() => { order.push("construct"); callback(); }); },
    read() { order.push("read"); this.push(null); },
  });
  await collect(readable);
  equal(order, ["construct", "read"]);
  const failing = new Writable({ construct(callback) { callback(new Error("never")); }, write() { order.push("write"); } });
  failing.write("x", () => {});
  equal((await once(failing, "error"))[0].message, "never");
});

check("iteration ends with the stream, and leaving it destroys the stream", async () => {
  equal(await collect(Readable.from(["a", "b"])), ["a", "b"]);
  const readable = Readable.from(["a", "b"]);
  for await (const chunk of readable) break;
  equal(readable.destroyed, true);
  const kept = Readable.from(["a", "b", "c"]);
  for await (const chunk of kept.iterator({ destroyOnReturn: false })) break;
  equal(kept.destroyed, false);
  equal(await collect(kept), ["b", "c"]);
  const failing = new Readable({ read() { this.destroy(new Error("x")); } });
  await rejects("Error", collect(failing), "x");
  const premature = new Readable({ read() {} });
  setTimeout(() => premature.destroy());
  equal((await rejects("Error", collect(premature))).code, "ERR_STREAM_PREMATURE_CLOSE");
});

check("from creates a stream from an iterable", async () => {
  equal(await collect(Readable.from(new Set([1, 2]))), [1, 2]);
  equal(await collect(Readable.from("text")), ["text"]);
  equal(await collect(Readable.from([Promise.resolve(1), 2])), [1, 2]);
  let closed = false;
  const endless = Readable.from((async function* () {
    try { for (let i = 0; ; i++) yield i; } finally { closed = true; }
  })());
  for await (const i of endless) if (i === 3) break;
  await tick();
  equal(closed, true);
  await rejects("Error", collect(Readable.from((async function* () { yield 1; throw new Error("x"); })())), "x");
  equal(throws("TypeError", () => Readable.from(5)).code, "ERR_INVALID_ARG_TYPE");
});

check("operators transform a stream", async () => {
  const numbers = () => Readable.from([1, 2, 3, 4]);
  equal(await numbers().map((x) => x * 2).toArray(), [2, 4, 6, 8]);
  equal(await numbers().filter(async (x) => x % 2 === 0).toArray(), [2, 4]);
  equal(await numbers().flatMap((x) => [x, x]).take(3).toArray(), [1, 1, 2]);
  equal(await numbers().drop(2).toArray(), [3, 4]);
  equal(await numbers().reduce((a, b) => a + b), 10);
  equal(await numbers().reduce((a, b) => a + b, 5), 15);
  equal([await numbers().some((x) => x > 3), await numbers().every((x) => x > 3), await numbers().find((x) => x > 2)], [true, false, 3]);
  const seen = [];
  await numbers().forEach((x) => seen.push(x));
  equal(seen, [1, 2, 3, 4]);
  let most = 0, now = 0;
  const busy = async (x) => { most = Math.max(most, ++now); await tick(); now--; return x; };
  equal(await numbers().map(busy, { concurrency: 2 }).toArray(), [1, 2, 3, 4]);
  equal(most >= 2, true);
  await rejects("AbortError", numbers().toArray({ signal: AbortSignal.abort() }));
  await rejects("TypeError", Readable.from([]).reduce((a, b) => a + b));
});

check("wrap adapts a stream of the old style", async () => {
  const old = new EventEmitter();
  const readable = new Readable().wrap(old);
  setTimeout(() => { old.emit("data", "a"); old.emit("data", "b"); old.emit("end"); });
  equal((await collect(readable)).join(""), "ab");
});

// ---- Writable

check("chunks are written one after the other, as bytes", async () => {
  const seen = [];
  const writable = new Writable({
    write(chunk, encoding, callback) {
      seen.push(chunk.constructor.name, encoding, chunk.toString());
      setTimeout(callback);
    },
  });
  writable.write("a");
  writable.write("Yg==", "base64");
  writable.end(new Uint8Array([99]));
  await once(writable, "finish");
  equal(seen, ["Buffer", "buffer", "a", "Buffer", "buffer", "b", "Buffer", "buffer", "c"]);
  equal([writable.writableFinished, writable.writableEnded, writable.writableLength, writable.writable], [true, true, 0, false]);
});

check("strings are not converted if decodeStrings is false", async () => {
  const seen = [];
  const writable = new Writable({ decodeStrings: false, defaultEncoding: "latin1", write(chunk, encoding, callback) { seen.push(chunk, encoding); callback(); } });
  writable.write("a");
  writable.setDefaultEncoding("utf8").write("b");
  writable.write("c", "hex");
  equal(seen, ["a", "latin1", "b", "utf8", "c", "hex"]);
  equal(throws("TypeError", () => writable.write("a", "no-such")).code, "ERR_UNKNOWN_ENCODING");
});

check("write returns false when the buffer is full, and drain is emitted when there is room", async () => {
  const writable = slow({ highWaterMark: 3 });
  equal([writable.write("ab"), writable.write("c"), writable.writableNeedDrain, writable.writableLength], [true, false, true, 3]);
  await once(writable, "drain");
  equal([writable.writableNeedDrain, writable.writableLength, writable.seen], [false, 0, ["ab", "c"]]);
});

check("callbacks are called when their chunk is written, and not before write returns", async () => {
  const order = [];
  const writable = new Writable({ write(chunk, encoding, callback) { callback(); } });
  writable.write("a", () => order.push("a"));
  writable.write("b", "utf8", () => order.push("b"));
  writable.end(() => order.push("end"));
  order.push("sync");
  writable.on("finish", () => order.push("finish"));
  await tick();
  equal(order, ["sync", "a", "b", "end", "finish"]);
});

check("writev gets the chunks that were buffered meanwhile", async () => {
  const seen = [];
  const writable = new Writable({
    write(chunk, encoding, callback) { seen.push(`one ${chunk}`); setTimeout(callback); },
    writev(chunks, callback) { seen.push(chunks.map(({ chunk }) => chunk.toString()).join()); setTimeout(callback); },
  });
  for (const text of ["a", "b", "c"]) writable.write(text);
  writable.end();
  await once(writable, "finish");
  equal(seen, ["one a", "b,c"]);
});

check("cork delays writes until uncork", async () => {
  const writable = slow();
  writable.cork();
  writable.cork();
  writable.write("a");
  writable.uncork();
  equal([writable.writableCorked, writable.seen], [1, []]);
  writable.uncork();
  equal(writable.seen, ["a"]);
  writable.cork();
  writable.end("b");
  await once(writable, "finish");
  equal(writable.seen, ["a", "b"]);
});

check("final is called before finish is emitted", async () => {
  const order = [];
  const writable = new Writable({
    write(chunk, encoding, callback) { callback(); },
    final(callback) { order.push("final"); setTimeout(() => { order.push("flushed"); callback(); }); },
  });
  writable.on("prefinish", () => order.push("prefinish")).on("finish", () => order.push("finish")).on("close", () => order.push("close"));
  writable.end("x");
  await once(writable, "close");
  equal(order, ["final", "flushed", "prefinish", "finish", "close"]);
  const failing = new Writable({ final(callback) { callback(new Error("x")); } });
  failing.end();
  equal((await once(failing, "error"))[0].message, "x");
});

check("a write that fails destroys the stream and fails the waiting writes", async () => {
  const writable = new Writable({ write(chunk, encoding, callback) { setTimeout(callback, 0, new Error("full")); } });
  const seen = [];
  writable.write("a", (error) => seen.push(`a ${error?.message}`));
  writable.write("b", (error) => seen.push(`b ${error?.message}`));
  writable.on("error", (error) => seen.push(`error ${error.message}`));
  await new Promise((resolve) => writable.on("close", resolve));
  equal(seen, ["a full", "b full", "error full"]);
  equal([writable.destroyed, writable.errored.message], [true, "full"]);
});

check("nothing can be written after the end, or to a destroyed stream", async () => {
  const writable = new Writable({ write(chunk, encoding, callback) { callback(); } });
  writable.end();
  writable.write("late", (error) => equal(error.code, "ERR_STREAM_WRITE_AFTER_END"));
  equal((await once(writable, "error"))[0].code, "ERR_STREAM_WRITE_AFTER_END");
  const gone = new Writable({ write(chunk, encoding, callback) { callback(); } });
  gone.destroy();
  const code = await new Promise((resolve) => gone.write("x", (error) => resolve(error.code)));
  equal(code, "ERR_STREAM_DESTROYED");
  equal(throws("TypeError", () => new Writable().write(null)).code, "ERR_STREAM_NULL_VALUES");
  equal(throws("TypeError", () => new Writable().write({})).code, "ERR_INVALID_ARG_TYPE");
  const again = new Writable({ write(chunk, encoding, callback) { callback(); } });
  again.end();
  await once(again, "finish");
  equal(await new Promise((resolve) => again.end((error) => resolve(error.code))), "ERR_STREAM_ALREADY_FINISHED");
});

check("a writable stream cannot be piped from", async () => {
  const writable = new Writable();
  writable.pipe(new Writable());
  equal((await once(writable, "error"))[0].code, "ERR_STREAM_CANNOT_PIPE");
});

// ---- Duplex and Transform

check("the two sides of a duplex stream end independently", async () => {
  const written = [];
  const duplex = new Duplex({ read() {}, write(chunk, encoding, callback) { written.push(chunk.toString()); callback(); } });
  duplex.end("in");
  duplex.push("out");
  await once(duplex, "finish");
  equal([duplex.destroyed, duplex.writable, duplex.readable, written], [false, false, true, ["in"]]);
  duplex.push(null);
  equal(await collect(duplex), ["out"]);
  const half = new Duplex({ allowHalfOpen: false, read() { this.push(null); }, write(chunk, encoding, callback) { callback(); } });
  half.resume();
  await once(half, "finish");
});

check("a transform outputs its transformed input", async () => {
  const upper = new Transform({
    transform(chunk, encoding, callback) { callback(null, chunk.toString().toUpperCase()); },
    flush(callback) { this.push("!"); callback(null, "?"); },
  });
  upper.write("ab");
  upper.end("c");
  equal((await collect(upper)).join(""), "ABC!?");
  class Twice extends Transform {
    constructor() { super({ objectMode: true }); }
    _transform(x, encoding, callback) { this.push(x); this.push(x); callback(); }
  }
  const twice = new Twice();
  twice.write(1);
  twice.end(2);
  equal(await collect(twice), [1, 1, 2, 2]);
});

check("a transform that is not read exerts backpressure on its writer", async () => {
  let count = 0;
  const through = new Transform({ highWaterMark: 2, transform(chunk, encoding, callback) { count++; callback(null, chunk); } });
  for (let i = 0; i < 10; i++) through.write("x");
  await tick();
  equal(count < 10, true);
  through.end();
  equal((await collect(through)).join("").length, 10);
});

check("a transform that fails fails both sides", async () => {
  const failing = new Transform({ transform(chunk, encoding, callback) { callback(new Error("x")); } });
  failing.write("a");
  equal((await once(failing, "error"))[0].message, "x");
  equal([failing.destroyed, failing.writable, failing.readable], [true, false, false]);
  const flushing = new Transform({ transform(chunk, encoding, callback) { callback(); }, flush(callback) { callback(new Error("y")); } });
  flushing.end();
  equal((await once(flushing, "error"))[0].message, "y");
});

check("Duplex.from creates a duplex stream from iterables, streams, functions and promises", async () => {
  equal(await collect(Duplex.from(["a", "b"])), ["a", "b"]);
  const seen = [];
  const sink = new Writable({ write(chunk, encoding, callback) { seen.push(chunk.toString()); callback(); } });
  const both = Duplex.from({ readable: Readable.from(["x"]), writable: sink });
  both.end("y");
  equal(await collect(both), ["x"]);
  await tick();
  equal(seen, ["y"]);
  const upper = Duplex.from(async function* (source) { for await (const chunk of source) yield String(chunk).toUpperCase(); });
  upper.end("abc");
  equal(await collect(upper), ["ABC"]);
});

// ---- Pipes

check("pipe forwards all chunks and the end", async () => {
  const writable = slow({ highWaterMark: 2 });
  const source = Readable.from(["aa", "bb", "cc"]);
  const order = events(writable, "pipe", "unpipe", "finish");
  equal(source.pipe(writable) === writable, true);
  await once(writable, "finish");
  await tick();
  equal([writable.seen, order], [["aa", "bb", "cc"], ["pipe", "finish", "unpipe"]]);
});

check("a slow writer exerts backpressure on a fast reader", async () => {
  let made = 0;
  const source = new Readable({ highWaterMark: 1, objectMode: true, read() { this.push(made < 50 ? made++ : null); } });
  const sink = new Writable({ objectMode: true, highWaterMark: 1, write(chunk, encoding, callback) { if (chunk > 3) return; setTimeout(callback); } });
  source.pipe(sink);
  await new Promise((resolve) => setTimeout(resolve, 30));
  equal(made < 10, true);
});

check("unpipe detaches the writer, and end: false leaves it open", async () => {
  const sink = slow();
  const source = new Readable({ read() {} });
  source.pipe(sink);
  source.push("a");
  await tick();
  source.unpipe(sink);
  source.push("b");
  await tick();
  equal([sink.seen, source.readableFlowing], [["a"], false]);
  const open = slow();
  const other = Readable.from(["x"]);
  other.pipe(open, { end: false });
  await once(other, "end");
  await tick();
  equal([open.writableEnded, open.writable], [false, true]);
});

check("a source with two writers is as fast as the slower", async () => {
  const [one, two] = [slow({ highWaterMark: 1 }), slow({ highWaterMark: 100 })];
  const source = Readable.from(["a", "b", "c"]);
  source.pipe(one);
  source.pipe(two);
  await Promise.all([once(one, "finish"), once(two, "finish")]);
  equal([one.seen, two.seen], [["a", "b", "c"], ["a", "b", "c"]]);
});

check("streams of the old style are piped by their events", async () => {
  const old = new Stream();
  old.readable = true;
  const sink = slow();
  old.pipe(sink);
  old.emit("data", "a");
  old.emit("end");
  await once(sink, "finish");
  equal(sink.seen, ["a"]);
});

// ---- finished, pipeline, compose

check("finished reports every way in which a stream ends", async () => {
  const outcome = (stream, options) => new Promise((resolve) => finished(stream, options ?? {}, (error) => resolve(error?.code ?? error?.message ?? "well")));
  equal(await outcome(Readable.from(["a"]).resume()), "well");
  const writable = new Writable({ write(chunk, encoding, callback) { callback(); } });
  setTimeout(() => writable.end("x"));
  equal(await outcome(writable), "well");
  equal(await outcome(writable), "well", "when it is over already");
  const failing = new Readable({ read() { this.destroy(new Error("x")); } }).resume();
  equal(await outcome(failing), "x");
  const premature = new Readable({ read() {} });
  setTimeout(() => premature.destroy());
  equal(await outcome(premature), "ERR_STREAM_PREMATURE_CLOSE");
  equal(await outcome(premature), "ERR_STREAM_PREMATURE_CLOSE");
  const controller = new AbortController();
  setTimeout(() => controller.abort());
  equal(await outcome(new Readable({ read() {} }), { signal: controller.signal }), "ABORT_ERR");
  const half = new PassThrough();
  half.end();
  equal(await outcome(half, { readable: false }), "well");
  let called = false;
  const quiet = new Readable({ read() {} }).on("error", () => {});
  finished(quiet, () => (called = true))();
  quiet.destroy(new Error("x"));
  await tick();
  equal(called, false);
  await finishedPromise(Readable.from([]).resume());
  await rejects("Error", finishedPromise(new Readable({ read() { this.destroy(new Error("y")); } }).resume()), "y");
});

check("pipeline joins streams, and calls back at the end of the last", async () => {
  const sink = slow();
  const upper = new Transform({ transform(chunk, encoding, callback) { callback(null, chunk.toString().toUpperCase()); } });
  const error = await new Promise((resolve) => equal(pipeline(Readable.from(["a", "b"]), upper, sink, resolve) === sink, true));
  equal([error, sink.seen, sink.writableFinished], [undefined, ["A", "B"], true]);
});

check("pipeline also takes iterables, generators, and a function at the end", async () => {
  const total = await pipelinePromise(
    [1, 2, 3],
    async function* (source) { for await (const x of source) yield x * 2; },
    async (source) => { let sum = 0; for await (const x of source) sum += x; return sum; },
  );
  equal(total, 12);
  const sink = slow();
  await pipelinePromise(async function* () { yield "a"; yield "b"; }, new PassThrough(), sink);
  equal(sink.seen, ["a", "b"]);
});

check("an error in a pipeline destroys all of its streams", async () => {
  const source = new Readable({ read() {} });
  source.push("x");
  const failing = new Transform({ transform(chunk, encoding, callback) { callback(new Error("middle")); } });
  const sink = slow();
  await rejects("Error", pipelinePromise(source, failing, sink), "middle");
  equal([source.destroyed, failing.destroyed, sink.destroyed], [true, true, true]);
  let closed = false;
  const generator = async function* () { try { for (;;) yield "x"; } finally { closed = true; } };
  const full = new Writable({ write(chunk, encoding, callback) { callback(new Error("full")); } });
  await rejects("Error", pipelinePromise(generator, full), "full");
  await tick();
  equal(closed, true);
  const gone = new Readable({ read() {} });
  setTimeout(() => gone.destroy());
  equal((await rejects("Error", pipelinePromise(gone, slow()))).code, "ERR_STREAM_PREMATURE_CLOSE");
});

check("a pipeline can be aborted, and can leave its end open", async () => {
  const controller = new AbortController();
  const source = new Readable({ read() {} });
  const sink = slow();
  setTimeout(() => controller.abort());
  await rejects("AbortError", pipelinePromise(source, sink, { signal: controller.signal }));
  equal([source.destroyed, sink.destroyed], [true, true]);
  const open = slow();
  await pipelinePromise(Readable.from(["a"]), open, { end: false });
  equal([open.writableEnded, open.destroyed], [false, false]);
});

check("too few streams, and values that are not streams, are rejected", async () => {
  equal(throws("TypeError", () => pipeline(new PassThrough(), () => {})).code, "ERR_MISSING_ARGS");
  throws("TypeError", () => pipeline(new PassThrough(), new PassThrough()));
  throws("TypeError", () => finished({}, () => {}));
});

check("compose combines several streams into one", async () => {
  const upper = new Transform({ transform(chunk, encoding, callback) { callback(null, chunk.toString().toUpperCase()); } });
  const twice = async function* (source) { for await (const chunk of source) yield `${chunk}${chunk}`; };
  const composed = compose(upper, twice);
  composed.end("ab");
  equal((await collect(composed)).join(""), "ABAB");
});

check("a signal destroys a stream", async () => {
  const controller = new AbortController();
  const readable = addAbortSignal(controller.signal, new Readable({ read() {} }));
  const failed = once(readable, "error");
  controller.abort(new Error("why"));
  const [error] = await failed;
  equal([error.name, error.code, error.cause.message], ["AbortError", "ABORT_ERR", "why"]);
  const given = new Writable({ signal: AbortSignal.abort(), write() {} });
  equal((await once(given, "error"))[0].name, "AbortError");
  equal([isErrored(readable), isReadable(readable), isReadable(Readable.from([]))], [true, false, true]);
});

// ---- Web streams

check("a readable stream is converted to a ReadableStream and back", async () => {
  const response = new Response(Readable.toWeb(Readable.from([Buffer.from("he"), Buffer.from("llo")], { objectMode: false })));
  equal(await response.text(), "hello");
  const back = Readable.fromWeb(new Response("from the web").body);
  equal((await collect(back)).join(""), "from the web");
  const objects = Readable.fromWeb(new ReadableStream({ start(c) { c.enqueue({ a: 1 }); c.close(); } }), { objectMode: true });
  equal(await collect(objects), [{ a: 1 }]);
});

check("errors and cancellation are propagated between converted streams", async () => {
  const failing = new Readable({ read() { this.destroy(new Error("x")); } });
  await rejects("Error", Readable.toWeb(failing).getReader().read(), "x");
  const source = new Readable({ read() {} });
  source.on("error", () => {});
  await Readable.toWeb(source).cancel(new Error("enough"));
  equal(source.destroyed, true);
  let why;
  const from = Readable.fromWeb(new ReadableStream({ cancel(reason) { why = reason; } }));
  from.on("error", () => {});
  from.destroy(new Error("enough"));
  await new Promise((resolve) => from.on("close", resolve));
  equal(why.message, "enough");
  await rejects("Error", collect(Readable.fromWeb(new ReadableStream({ pull() { throw new Error("y"); } }))), "y");
});

check("a ReadableStream's reader exerts backpressure on a stream", async () => {
  let made = 0;
  const source = new Readable({ highWaterMark: 4, read() { made++; this.push("xx"); } });
  const reader = Readable.toWeb(source).getReader();
  await reader.read();
  await new Promise((resolve) => setTimeout(resolve, 10));
  equal(made < 20, true);
  await reader.cancel();
});

check("a writable stream is converted to a WritableStream and back", async () => {
  const sink = slow({ highWaterMark: 1 });
  const writer = Writable.toWeb(sink).getWriter();
  await writer.write(Buffer.from("a"));
  await writer.write(Buffer.from("b"));
  await writer.close();
  equal([sink.seen, sink.writableFinished], [["a", "b"], true]);
  const seen = [];
  const writable = Writable.fromWeb(new WritableStream({ write(chunk) { seen.push(chunk.toString()); }, close() { seen.push("close"); } }));
  writable.write("x");
  writable.end("y");
  await once(writable, "finish");
  equal(seen, ["x", "y", "close"]);
});

check("a pair of Web streams is converted to a duplex stream", async () => {
  const duplex = Duplex.fromWeb(new TransformStream({ transform(chunk, controller) { controller.enqueue(Buffer.from(chunk.toString().toUpperCase())); } }));
  duplex.end("abc");
  equal((await collect(duplex)).join(""), "ABC");
  const { readable, writable } = Duplex.toWeb(new PassThrough());
  const writer = writable.getWriter();
  writer.write(Buffer.from("through"));
  writer.close();
  equal(await new Response(readable).text(), "through");
});

check("a stream uses the original Promise, even if the Worker has replaced it", async () => {
  const { Promise } = globalThis;
  globalThis.Promise = function () { throw new Error("the Worker's"); };
  try {
    const source = new Readable({ read() {} });
    const all = collect(source);
    source.push("a");
    source.push(null);
    equal(await all, ["a"]);
  } finally {
    globalThis.Promise = Promise;
  }
});

check("node:stream/web exports the global classes", () => {
  equal([web.ReadableStream === ReadableStream, web.TextDecoderStream === TextDecoderStream, web.WritableStream === WritableStream], [true, true, true]);
});

check("consumers read all of a stream", async () => {
  const source = () => Readable.from([Buffer.from('{"a":'), Buffer.from("1}")]);
  equal([await text(source()), await json(source()), (await buffer(source())).toString()], ['{"a":1}', { a: 1 }, '{"a":1}']);
  equal([(await arrayBuffer(source())).byteLength, (await blob(source())).size], [7, 7]);
  equal(await text(new Response("né").body), "né");
});
