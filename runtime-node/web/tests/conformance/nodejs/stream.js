// Checks of node:stream: the module, and Readable.
import Stream, { Duplex, PassThrough, Readable, Transform, Writable, getDefaultHighWaterMark, pipeline, promises } from "node:stream";
import { pipeline as pipelinePromise } from "node:stream/promises";
import EventEmitter, { once } from "node:events";
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

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

// ---- The module

about("node:stream");

check("the module is the class from which all streams inherit", () => {
  equal([Stream.Stream === Stream, Stream.Readable === Readable, Stream.promises === promises, Stream.pipeline === pipeline], [true, true, true, true]);
  equal([new Readable() instanceof Stream, new Writable() instanceof Stream, new Readable() instanceof EventEmitter], [true, true, true]);
  equal([new Stream() instanceof EventEmitter, promises.pipeline === pipelinePromise], [true, true]);
});

check("a duplex stream is an instance of Readable and Writable, and other streams are instances of one of them", () => {
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

check("a stream without read, or with a read that throws, emits an error", async () => {
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

check("wrap adapts a stream without read()", async () => {
  const old = new EventEmitter();
  const readable = new Readable().wrap(old);
  setTimeout(() => { old.emit("data", "a"); old.emit("data", "b"); old.emit("end"); });
  equal((await collect(readable)).join(""), "ab");
});
