// Checks of CompressionStream and DecompressionStream (Compression §4, §5).
import { about, check, equal, rejects, throws } from "../check.js";
import { bytes, collect, later } from "../stream-fixtures.js";
export { default } from "../check.js";

const FORMATS = ["gzip", "deflate", "deflate-raw", "brotli"];
const hex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
const utf8 = (text) => new TextEncoder().encode(text);
const join = (parts) => {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
};
const through = async (chunks, transform) => join(await collect(ReadableStream.from(chunks).pipeThrough(transform)));
const compress = (format, ...chunks) => through(chunks, new CompressionStream(format));
const decompress = (format, ...chunks) => through(chunks, new DecompressionStream(format));
const text = async (promise) => new TextDecoder().decode(await promise);

// "expected output" in the formats of RFC 1952, 1950, 1951 and 7932.
const KNOWN = {
  "gzip": "1f8b08000000000000034bad28484d2e494d51c82f2d29282d0100b00139b30f000000",
  "deflate": "789c4bad28484d2e494d51c82f2d29282d010030ad0624",
  "deflate-raw": "4bad28484d2e494d51c82f2d29282d0100",
  "brotli": "e000106578706563746564206f757470757403",
};

about("CompressionStream");

check("compressed data is decompressed to the original", async () => {
  const plain = "to be or not to be, ".repeat(500);
  for (const format of FORMATS) {
    const packed = await compress(format, utf8(plain));
    equal(packed.length < plain.length / 10, true, format);
    equal(await text(decompress(format, packed)), plain, format);
  }
});

check("formats are compatible with other implementations", async () => {
  for (const format of FORMATS) equal(await text(decompress(format, hex(KNOWN[format]))), "expected output", format);
  const zip = await compress("gzip", utf8("expected output"));
  equal([...zip.subarray(0, 4), zip[zip.length - 4]], [0x1F, 0x8B, 8, 0, 15]);
  equal((await compress("deflate", utf8("a")))[0], 0x78);
});

check("empty input is compressed and decompressed", async () => {
  for (const format of FORMATS) {
    const packed = await compress(format);
    equal(packed.length > 0, true, format);
    equal((await decompress(format, packed)).length, 0, format);
    equal((await decompress(format, await compress(format, bytes(), bytes()))).length, 0, format);
  }
});

check("chunks may be split anywhere and be buffers or views of any type", async () => {
  const plain = utf8("abcdefghijklmnopqrstuvwxyz".repeat(40));
  for (const format of FORMATS) {
    const packed = await compress(format, plain.buffer.slice(0, 100), new DataView(plain.buffer, 100, 101), new Uint16Array(plain.buffer.slice(201, 301)), plain.subarray(301));
    const cut = [...packed].map((byte) => bytes(byte));
    equal(await decompress(format, ...cut), plain, format);
    equal(await decompress(format, bytes(), packed, bytes()), plain, format);
  }
});

check("the output is a sequence of Uint8Arrays that are not empty", async () => {
  for (const format of FORMATS) {
    const out = await collect(ReadableStream.from([utf8("a"), utf8("b")]).pipeThrough(new CompressionStream(format)));
    equal(out.every((part) => part.constructor === Uint8Array && part.length > 0), true, format);
  }
});

check("a chunk that is not bytes fails both sides", async () => {
  for (const Class of [CompressionStream, DecompressionStream]) {
    for (const bad of [undefined, null, 3, "a", {}, [1]]) {
      const { writable, readable } = new Class("gzip");
      const writer = writable.getWriter();
      const read = readable.getReader().read();
      await rejects("TypeError", writer.write(bad));
      await rejects("TypeError", read);
    }
  }
});

about("DecompressionStream");

check("malformed data cannot be decompressed", async () => {
  for (const format of FORMATS) await rejects("TypeError", decompress(format, new Uint8Array(100).fill(0xFF)));
  const gzip = await compress("gzip", utf8("some text"));
  for (const at of [0, 1, 2, gzip.length - 1, gzip.length - 8]) {
    const broken = gzip.slice();
    broken[at] ^= 0x55;
    await rejects("TypeError", decompress("gzip", broken));
  }
  const deflate = await compress("deflate", utf8("some text"));
  deflate[deflate.length - 1] ^= 1; // the checksum
  await rejects("TypeError", decompress("deflate", deflate));
  await rejects("TypeError", decompress("deflate", bytes(0x78, 0xBB, 0, 0, 0, 1))); // requires a preset dictionary
});

check("truncated data is an error", async () => {
  for (const format of FORMATS) {
    const packed = await compress(format, utf8("some text that is not too short"));
    for (const length of [0, 1, packed.length - 1]) {
      await rejects("TypeError", decompress(format, packed.subarray(0, length)), "", `${format} ${length}`);
    }
  }
});

check("data after the end is an error, in the same chunk or a later one", async () => {
  for (const format of FORMATS) {
    const packed = await compress(format, utf8("some text"));
    await rejects("TypeError", decompress(format, join([packed, bytes(0)])));
    await rejects("TypeError", decompress(format, packed, bytes(0)));
    await rejects("TypeError", decompress(format, packed, packed));
    const { readable, writable } = new DecompressionStream(format);
    const writer = writable.getWriter();
    const written = writer.write(join([packed, bytes(1, 2, 3)]));
    // The valid data before the error is part of the output.
    equal(new TextDecoder().decode((await readable.getReader().read()).value), "some text", format);
    await rejects("TypeError", written);
  }
});

check("a large output is decompressed in pieces, as it is read", async () => {
  const SIZE = 16 << 20;
  for (const format of FORMATS) {
    const zeros = new Uint8Array(1 << 20);
    let left = SIZE;
    const source = new ReadableStream({ pull: (c) => (left > 0 ? (c.enqueue(zeros), (left -= zeros.length)) : c.close()) });
    const bomb = join(await collect(source.pipeThrough(new CompressionStream(format))));
    let size = 0;
    for await (const part of ReadableStream.from([bomb]).pipeThrough(new DecompressionStream(format))) {
      if (part.length > 1 << 20) throw new Error(`${part.length} at once`);
      size += part.length;
    }
    equal(size, SIZE, format);
  }
});

check("decompression stops while the output is not read", async () => {
  const zeros = new Uint8Array(16 << 20);
  const bomb = await compress("gzip", zeros);
  const { readable, writable } = new DecompressionStream("gzip");
  const writer = writable.getWriter();
  const written = writer.write(bomb);
  const reader = readable.getReader();
  const size = (await reader.read()).value.length;
  await later();
  equal(await Promise.race([written, later().then(() => "waits")]), "waits");
  await reader.cancel("enough");
  await written.catch(() => {});
  equal(size > 0, true);
  const aborted = new DecompressionStream("gzip");
  const out = aborted.readable.getReader();
  const other = aborted.writable.getWriter();
  other.write(bomb).catch(() => {});
  await out.read();
  other.abort("stop").catch(() => {});
  await later();
  await out.cancel().catch(() => {});
});

check("a chunk whose buffer is transferred during a write ends there", async () => {
  const bomb = await compress("gzip", new Uint8Array(16 << 20));
  const { readable, writable } = new DecompressionStream("gzip");
  const writer = writable.getWriter();
  const written = writer.write(bomb);
  const reader = readable.getReader();
  await reader.read();
  bomb.buffer.transfer();
  const closed = writer.close();
  for (;;) {
    const { done } = await reader.read().catch(() => ({ done: true }));
    if (done) break;
  }
  await written.catch(() => {});
  await rejects("TypeError", closed);
});

about("CompressionStream");

check("unfinished streams may be dropped", async () => {
  for (let i = 0; i < 300; i++) {
    const { writable } = new DecompressionStream("gzip");
    writable.getWriter().write(bytes(0x1F, 0x8B)).catch(() => {});
    const { readable } = new CompressionStream("gzip");
    await readable.cancel();
  }
});

check("the constructors accept only the specified formats", () => {
  for (const Class of [CompressionStream, DecompressionStream]) {
    throws("TypeError", () => new Class());
    for (const bad of ["a", "GZIP", "", undefined, null, "zip"]) throws("TypeError", () => new Class(bad));
    new Class({ toString: () => "gzip" });
    equal([Class.length, Object.keys(Class.prototype)], [1, ["readable", "writable"]]);
    const stream = new Class("gzip");
    equal([stream.readable instanceof ReadableStream, stream.writable instanceof WritableStream, `${stream}`],
      [true, true, `[object ${Class.name}]`]);
    equal([stream.readable === stream.readable, stream.writable === stream.writable], [true, true]);
    for (const key of ["readable", "writable"]) throws("TypeError", () => Reflect.get(Class.prototype, key, {}));
  }
});
