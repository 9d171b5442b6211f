// Checks of node:zlib.
import zlib, { brotliCompress, brotliDecompressSync, constants, crc32, createDeflateRaw, createGunzip, createGzip, deflateSync, gunzip, gunzipSync, gzip, gzipSync, inflateRawSync, inflateSync, unzip, unzipSync } from "node:zlib";
import { promisify } from "node:util";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { buffer, text } from "node:stream/consumers";
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

about("node:zlib");

const LONG = "the same words again and again, ".repeat(20_000);

check("the synchronous functions round-trip", () => {
  for (const [compress, decompress] of [["gzipSync", "gunzipSync"], ["deflateSync", "inflateSync"], ["deflateRawSync", "inflateRawSync"], ["brotliCompressSync", "brotliDecompressSync"]]) {
    for (const data of ["", "né", LONG]) {
      const compressed = zlib[compress](data);
      equal([Buffer.isBuffer(compressed), zlib[decompress](compressed).toString() === data], [true, true], `${compress} of ${data.length}`);
    }
    equal(zlib[compress](LONG).length < LONG.length / 20, true, compress);
  }
  equal(gunzipSync(gzipSync(new Uint16Array([1, 2]))).length, 4);
  equal(gunzipSync(gzipSync(new Uint8Array([1, 2]).buffer)).toString("hex"), "0102");
});

check("the formats are compatible with other implementations", () => {
  equal(inflateSync(Buffer.from("eJxLTEoGAAJNASc=", "base64")).toString(), "abc");
  equal(inflateRawSync(Buffer.from("S0xKBgA=", "base64")).toString(), "abc");
  equal(gunzipSync(Buffer.from("H4sIAAAAAAAAA0tMSgYAwkEkNQMAAAA=", "base64")).toString(), "abc");
  equal(brotliDecompressSync(Buffer.from("CwGAYWJjAw==", "base64")).toString(), "abc");
  equal([unzipSync(gzipSync("a")).toString(), unzipSync(deflateSync("b")).toString()], ["a", "b"]);
});

check("the functions with a callback round-trip, and can be promisified", async () => {
  equal((await promisify(gunzip)(await promisify(gzip)(LONG))).toString() === LONG, true);
  equal(brotliDecompressSync(await promisify(brotliCompress)("né")).toString(), "né");
  equal((await promisify(unzip)(deflateSync("b"), {})).toString(), "b");
  throws("TypeError", () => gzip("a"));
});

check("the streams round-trip", async () => {
  const source = () => Readable.from([Buffer.from("one, "), Buffer.from("two")]);
  equal(gunzipSync(await buffer(source().pipe(createGzip()))).toString(), "one, two");
  equal(await text(source().pipe(createGzip()).pipe(createGunzip())), "one, two");
  equal(inflateRawSync(await buffer(source().pipe(createDeflateRaw()))).toString(), "one, two");
  await rejects("TypeError", pipeline(Readable.from([Buffer.from("not it")]), createGunzip(), async (stream) => buffer(stream)));
});

check("malformed and truncated data is rejected", async () => {
  equal(throws("Error", () => gunzipSync("not gzip")).code, "Z_DATA_ERROR");
  equal(throws("Error", () => gunzipSync(gzipSync(LONG).subarray(0, 50))).code, "Z_BUF_ERROR");
  equal((await rejects("Error", promisify(gunzip)("not gzip"))).code, "Z_DATA_ERROR");
  equal((await rejects("Error", promisify(gunzip)(gzipSync(LONG).subarray(0, 50)))).code, "Z_BUF_ERROR");
  equal(throws("TypeError", () => gzipSync(5)).code, "ERR_INVALID_ARG_TYPE");
});

check("maxOutputLength bounds the output", async () => {
  const bomb = gzipSync(LONG);
  equal(throws("RangeError", () => gunzipSync(bomb, { maxOutputLength: 1000 })).code, "ERR_BUFFER_TOO_LARGE");
  equal((await rejects("RangeError", promisify(gunzip)(bomb, { maxOutputLength: 1000 }))).code, "ERR_BUFFER_TOO_LARGE");
});

check("crc32 returns the checksum, and the constants have their values", () => {
  equal([crc32("123456789"), crc32("6789", crc32("12345")), crc32("")], [0xcbf43926, 0xcbf43926, 0]);
  equal([constants.Z_BEST_COMPRESSION, constants.Z_FINISH], [9, 4]);
});
