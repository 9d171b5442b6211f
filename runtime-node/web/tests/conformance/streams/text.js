// Checks of TextEncoderStream and TextDecoderStream (Encoding §7.5, §7.6).
import { about, check, equal, rejects, throws } from "../check.js";
import { bytes, collect } from "../stream-fixtures.js";
export { default } from "../check.js";

const through = (chunks, transform) => collect(ReadableStream.from(chunks).pipeThrough(transform));

about("TextEncoderStream");

check("chunks of text become chunks of UTF-8", async () => {
  equal(await through(["aé", "", "😀", 1, null], new TextEncoderStream()), [
    bytes(0x61, 0xC3, 0xA9), bytes(0xF0, 0x9F, 0x98, 0x80), bytes(0x31), bytes(0x6E, 0x75, 0x6C, 0x6C),
  ]);
});

check("a surrogate pair may be split between chunks, and lone surrogates are replaced", async () => {
  equal(await through(["a\uD83D", "\uDE00b"], new TextEncoderStream()), [bytes(0x61), bytes(0xF0, 0x9F, 0x98, 0x80, 0x62)]);
  equal(await through(["\uD83D", "", "\uDE00"], new TextEncoderStream()), [bytes(0xF0, 0x9F, 0x98, 0x80)]);
  equal(await through(["\uD83D"], new TextEncoderStream()), [bytes(0xEF, 0xBF, 0xBD)]);
  equal(await through(["\uD83D", "a"], new TextEncoderStream()), [bytes(0xEF, 0xBF, 0xBD, 0x61)]);
  equal(await through(["\uD83D", "\uD83D\uDE00"], new TextEncoderStream()), [bytes(0xEF, 0xBF, 0xBD, 0xF0, 0x9F, 0x98, 0x80)]);
  equal(await through(["\uDE00"], new TextEncoderStream()), [bytes(0xEF, 0xBF, 0xBD)]);
});

check("a chunk that cannot be converted to a string fails the stream", async () => {
  await rejects("TypeError", through([Symbol()], new TextEncoderStream()));
  await rejects("thrown", through([{ toString() { throw Object.assign(new Error(""), { name: "thrown" }); } }], new TextEncoderStream()));
});

about("TextDecoderStream");

check("chunks of bytes become chunks of text, in any encoding", async () => {
  equal(await through([bytes(0x61), bytes(0xC3), bytes(0xA9, 0x62)], new TextDecoderStream()), ["a", "éb"]);
  equal(await through([bytes(0x61, 0x62).buffer, new DataView(bytes(0x63).buffer)], new TextDecoderStream()), ["ab", "c"]);
  equal(await through([bytes(0x3D), bytes(0xD8, 0x00), bytes(0xDE)], new TextDecoderStream("utf-16le")), ["😀"]);
  equal(await through([bytes(0xE4)], new TextDecoderStream("latin1")), ["ä"]);
  equal(await through([], new TextDecoderStream()), []);
});

check("an incomplete character at the end is replaced, or fatal", async () => {
  equal(await through([bytes(0x61, 0xC3)], new TextDecoderStream()), ["a", "\uFFFD"]);
  await rejects("TypeError", through([bytes(0x61, 0xC3)], new TextDecoderStream("utf-8", { fatal: true })));
  await rejects("TypeError", through([bytes(0xFF)], new TextDecoderStream("utf-8", { fatal: true })));
  equal(await through([bytes(0xFF)], new TextDecoderStream()), ["\uFFFD"]);
});

check("a byte order mark, even if it is split, is dropped unless ignoreBOM is set", async () => {
  const marked = () => [bytes(0xEF, 0xBB), bytes(0xBF, 0x61)];
  equal(await through(marked(), new TextDecoderStream()), ["a"]);
  equal(await through(marked(), new TextDecoderStream("utf-8", { ignoreBOM: true })), ["\uFEFFa"]);
});

check("a decoder rejects chunks that are not bytes", async () => {
  for (const bad of ["a", 1, null, undefined, {}, [1]]) await rejects("TypeError", through([bad], new TextDecoderStream()));
});

check("a long chunk is encoded and decoded as one chunk", async () => {
  const text = "aé€😀".repeat(100_000);
  const encoded = await through([text], new TextEncoderStream());
  equal([encoded.length, encoded[0].length], [1, 1_000_000]);
  const decoded = await through(encoded, new TextDecoderStream());
  equal([decoded.length, decoded[0] === text], [1, true]);
});

check("attributes have the values that the constructor was given", () => {
  const decoder = new TextDecoderStream("Latin1", { fatal: true, ignoreBOM: 1 });
  equal([decoder.encoding, decoder.fatal, decoder.ignoreBOM], ["windows-1252", true, true]);
  const plain = new TextDecoderStream();
  equal([plain.encoding, plain.fatal, plain.ignoreBOM], ["utf-8", false, false]);
  const encoder = new TextEncoderStream();
  equal([encoder.encoding, encoder.readable === encoder.readable, encoder.writable instanceof WritableStream], ["utf-8", true, true]);
  throws("RangeError", () => new TextDecoderStream("nonsense"));
  throws("TypeError", () => new TextDecoderStream("utf-8", 1));
  equal([Object.keys(TextEncoderStream.prototype), Object.keys(TextDecoderStream.prototype)],
    [["encoding", "readable", "writable"], ["encoding", "fatal", "ignoreBOM", "readable", "writable"]]);
  for (const Class of [TextEncoderStream, TextDecoderStream]) {
    equal(Class.length, 0);
    for (const key of Object.keys(Class.prototype)) throws("TypeError", () => Reflect.get(Class.prototype, key, {}));
  }
});

check("thousands of decoders can be created", async () => {
  for (let i = 0; i < 3000; i++) {
    const { writable, readable } = new TextDecoderStream();
    const writer = writable.getWriter();
    writer.write(bytes(0xC3)).catch(() => {});
    const reader = readable.getReader();
    reader.read();
    writer.close();
    await writer.closed;
  }
});
