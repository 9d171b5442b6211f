// Checks of node:stream: pipes, pipelines and functions for streams of any kind, and Web streams.
import Stream, { Duplex, PassThrough, Readable, Transform, Writable, addAbortSignal, compose, finished, isErrored, isReadable, pipeline } from "node:stream";
import { arrayBuffer, blob, buffer, json, text } from "node:stream/consumers";
import { finished as finishedPromise, pipeline as pipelinePromise } from "node:stream/promises";
import * as web from "node:stream/web";
import { once } from "node:events";
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

// ---- Pipes

about("node:stream");

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

check("a source with two writers is as fast as the slower writer", async () => {
  const [one, two] = [slow({ highWaterMark: 1 }), slow({ highWaterMark: 100 })];
  const source = Readable.from(["a", "b", "c"]);
  source.pipe(one);
  source.pipe(two);
  await Promise.all([once(one, "finish"), once(two, "finish")]);
  equal([one.seen, two.seen], [["a", "b", "c"], ["a", "b", "c"]]);
});

check("streams without read() are piped by their events", async () => {
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
  equal(await outcome(writable), "well", "when it has already ended");
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

check("pipeline joins streams, and calls back at the end of the last stream", async () => {
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

check("a pipeline can be aborted, and can leave its last stream open", async () => {
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

check("consumers read a whole stream", async () => {
  const source = () => Readable.from([Buffer.from('{"a":'), Buffer.from("1}")]);
  equal([await text(source()), await json(source()), (await buffer(source())).toString()], ['{"a":1}', { a: 1 }, '{"a":1}']);
  equal([(await arrayBuffer(source())).byteLength, (await blob(source())).size], [7, 7]);
  equal(await text(new Response("né").body), "né");
});
