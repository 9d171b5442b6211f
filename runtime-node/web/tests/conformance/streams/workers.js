// Checks of the streams of Cloudflare Workers that are not in the standard.
import { about, check, equal, rejects, throws } from "../check.js";
import { bytes } from "../stream-fixtures.js";
export { default } from "../check.js";

// Writes the chunks, and returns all output.
async function through(stream, ...chunks) {
  const writer = stream.writable.getWriter();
  const written = (async () => {
    for (const chunk of chunks) await writer.write(chunk);
    await writer.close();
  })();
  written.catch(() => {});
  const out = await new Response(stream.readable).bytes();
  await written;
  return [...out];
}

about("IdentityTransformStream");

check("bytes pass unchanged, as copies", async () => {
  const chunk = bytes(1, 2);
  const stream = new IdentityTransformStream();
  equal([stream instanceof TransformStream, stream.readable instanceof ReadableStream], [true, true]);
  equal(await through(stream, chunk, bytes(3).buffer, new DataView(bytes(0, 4).buffer, 1), bytes()), [1, 2, 3, 4]);
  equal(chunk.length, 2);
});

check("a chunk that is not bytes fails both sides", async () => {
  await rejects("TypeError", through(new IdentityTransformStream(), "text"), "ArrayBuffer");
  await rejects("TypeError", through(new IdentityTransformStream({ highWaterMark: 8 }), 5), "ArrayBuffer");
});

check("highWaterMark counts bytes", () => {
  const writer = new IdentityTransformStream({ highWaterMark: 5 }).writable.getWriter();
  writer.write(bytes(1, 2, 3));
  equal(writer.desiredSize, 2);
  throws("RangeError", () => new IdentityTransformStream({ highWaterMark: -1 }));
});

about("FixedLengthStream");

check("a FixedLengthStream passes exactly the given number of bytes", async () => {
  equal(await through(new FixedLengthStream(3), bytes(1, 2), bytes(3)), [1, 2, 3]);
  equal(await through(new FixedLengthStream(0n)), []);
  await rejects("TypeError", through(new FixedLengthStream(2), bytes(1), bytes(2, 3)), "1 bytes more");
  await rejects("TypeError", through(new FixedLengthStream(2), bytes(1)), "1 bytes less");
  for (const length of [-1, NaN, 2 ** 53, -1n]) throws("TypeError", () => new FixedLengthStream(length));
  throws("TypeError", () => new FixedLengthStream());
});

check("a FixedLengthStream can be a body", async () => {
  const { readable, writable } = new FixedLengthStream(3);
  const writer = writable.getWriter();
  writer.write(new Uint8Array([1, 2, 3]));
  writer.close();
  const response = new Response(readable);
  equal(response.headers.get("content-length"), null);
  equal(await response.bytes(), new Uint8Array([1, 2, 3]));
});

about("crypto.DigestStream");

const hex = (buffer) => new Uint8Array(buffer).toHex();

check("written data is hashed", async () => {
  const digest = async (algorithm, ...chunks) => {
    const stream = new crypto.DigestStream(algorithm);
    const writer = stream.getWriter();
    for (const chunk of chunks) await writer.write(chunk);
    await writer.close();
    return [hex(await stream.digest), stream.bytesWritten];
  };
  equal(await digest("SHA-1", "a", bytes(98, 99)), ["a9993e364706816aba3e25717850c26c9cd0d89d", 3]);
  equal(await digest({ name: "md5" }), ["d41d8cd98f00b204e9800998ecf8427e", 0]);
  const large = new Uint8Array(2 ** 20).fill(7);
  for (const name of ["SHA-256", "sha-384", "SHA-512"]) {
    equal(await digest(name, large.subarray(1), large.subarray(0, 1)), [hex(await crypto.subtle.digest(name, large)), 2 ** 20]);
  }
});

check("a digest stream takes a body, and is a WritableStream", async () => {
  const stream = new crypto.DigestStream("SHA-256");
  equal([stream instanceof WritableStream, crypto.DigestStream === crypto.DigestStream], [true, true]);
  await new Response("abc").body.pipeTo(stream);
  equal(hex(await stream.digest), hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode("abc"))));
});

check("the digest of a failed stream rejects", async () => {
  const aborted = new crypto.DigestStream("SHA-1");
  await aborted.abort("why");
  equal(await aborted.digest.catch((reason) => reason), "why");
  const wrong = new crypto.DigestStream("SHA-1");
  await rejects("TypeError", wrong.getWriter().write(5), "ArrayBuffer");
  await rejects("TypeError", wrong.digest);
  throws("NotSupportedError", () => new crypto.DigestStream("SHA-3"), "SHA-512");
  throws("TypeError", () => new crypto.DigestStream());
});
