// Checks of node:stream: Writable.
import { Writable } from "node:stream";
import { once } from "node:events";
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

const tick = () => new Promise((resolve) => setTimeout(resolve));
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

about("node:stream");

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

check("writev gets the chunks that were buffered during the previous write", async () => {
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
