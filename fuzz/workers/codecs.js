// Checks that every encoding and format gives the same result for input in pieces as for the whole
// input, and can be reversed.

import { Buffer } from "node:buffer";
import { attempt, attemptLater, checker, cut, same, sameBytes, streamOf } from "./check.js";

const ENCODINGS = [
  "utf-8", "utf-16le", "utf-16be", "windows-1252", "gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr",
  "x-user-defined", "ibm866", "koi8-u", "macintosh", "windows-874",
];
const FORMATS = ["gzip", "deflate", "deflate-raw", "brotli"];
// Maximum size that is compared, in bytes. A decompression bomb may be cut anywhere above this
// size.
const MAX_COMPARED = 64 << 10;

async function collect(stream) {
  const pieces = [];
  let length = 0;
  for await (const piece of stream) {
    pieces.push(piece);
    length += piece.length;
    if (length > MAX_COMPARED) break;
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

function text(bytes, encoding, length, options) {
  const whole = attempt(() => new TextDecoder(encoding, options).decode(bytes));
  const decoder = new TextDecoder(encoding, options);
  const pieces = attempt(() => {
    const parts = cut(bytes, length).map((piece) => decoder.decode(piece, { stream: true }));
    return parts.join("") + decoder.decode();
  });
  same(pieces, whole, `${encoding} in pieces of ${length}`);
  if (whole === undefined) return;
  same(whole.isWellFormed(), true, `${encoding}: text is well-formed`);
  const written = new TextEncoder().encode(whole);
  same(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(written), whole, "a round trip");
  const into = new Uint8Array(length);
  const done = new TextEncoder().encodeInto(whole, into);
  sameBytes(into.subarray(0, done.written), written.subarray(0, done.written), "encodeInto");
}

function base64(bytes, text) {
  const binary = new TextDecoder("latin1").decode(bytes);
  attempt(() => atob(text));
  const octets = String.fromCharCode(...bytes.subarray(0, 4096));
  same(atob(btoa(octets)), octets, "atob(btoa(…))");
  same(attempt(() => btoa(binary)) === undefined, /[^\0-\xff]/.test(binary), "btoa");
  for (const encoding of ["hex", "base64", "base64url", "latin1", "utf16le"]) {
    const even = encoding === "utf16le" ? bytes.subarray(0, bytes.length & ~1) : bytes;
    const written = Buffer.from(even).toString(encoding);
    sameBytes(Buffer.from(written, encoding), even, `Buffer's ${encoding}`);
    const read = Buffer.from(text, encoding);
    same(read.length <= Buffer.byteLength(text, encoding), true, `bytes of ${encoding}`);
  }
}

async function compressed(bytes, format, length) {
  const packed = await collect(streamOf(cut(bytes, length)).pipeThrough(new CompressionStream(format)));
  const unpacked = await collect(streamOf(cut(packed, length)).pipeThrough(new DecompressionStream(format)));
  sameBytes(unpacked, bytes, `${format} there and back`);
  const unpack = (pieces) =>
    attemptLater(() => collect(streamOf(pieces).pipeThrough(new DecompressionStream(format))));
  const [whole, pieces] = [await unpack([bytes.slice()]), await unpack(cut(bytes, length))];
  // Above this size, the two are cut at different places, so perhaps only one reaches an error.
  if (pieces?.length > MAX_COMPARED || whole?.length > MAX_COMPARED) return;
  sameBytes(pieces, whole, `${format} in pieces of ${length}`);
}

function cloned(text) {
  const value = attempt(() => JSON.parse(text));
  if (value === undefined) return;
  const clone = attempt(() => structuredClone(value));
  if (clone !== undefined) same(JSON.stringify(clone), JSON.stringify(value), "structuredClone");
}

export default checker(async (reader) => {
  const [what, encoding, format, flags, length] =
    [reader.number() % 4, reader.pick(ENCODINGS), reader.pick(FORMATS), reader.number(), reader.number()];
  const bytes = reader.rest;
  if (what === 0) return text(bytes, encoding, length, { fatal: (flags & 1) === 1, ignoreBOM: (flags & 2) === 2 });
  if (what === 1) return base64(bytes, new TextDecoder().decode(bytes));
  if (what === 2) return await compressed(bytes, format, length);
  cloned(new TextDecoder().decode(bytes));
});
