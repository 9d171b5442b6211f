// Checks of node:stream: Duplex and Transform.
import { Duplex, Readable, Transform, Writable } from "node:stream";
import { once } from "node:events";
import { about, check, equal } from "../check.js";
export { default } from "../check.js";

const tick = () => new Promise((resolve) => setTimeout(resolve));
const collect = async (stream) => {
  const all = [];
  for await (const chunk of stream) all.push(typeof chunk === "object" && chunk !== null && chunk.buffer ? chunk.toString() : chunk);
  return all;
};

about("node:stream");

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

check("a failing transform fails both sides", async () => {
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
