// Checks of TextEncoder and TextDecoder (Encoding §7), and of atob and btoa (HTML §8.3).
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

const bytes = (...values) => new Uint8Array(values);

about("TextEncoder");

check("text becomes UTF-8", () => {
  const encoder = new TextEncoder();
  equal(encoder.encoding, "utf-8");
  equal(encoder.encode("aé€😀"), bytes(0x61, 0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80));
  equal(encoder.encode(), bytes());
  equal(encoder.encode(undefined), bytes());
  equal(encoder.encode(null), bytes(0x6E, 0x75, 0x6C, 0x6C));
  equal(encoder.encode("\uD800a\uDC00"), bytes(0xEF, 0xBF, 0xBD, 0x61, 0xEF, 0xBF, 0xBD));
});

check("encodeInto writes whole characters only", () => {
  const encoder = new TextEncoder();
  const target = bytes(9, 9, 9, 9);
  equal(encoder.encodeInto("aé€", target), { read: 2, written: 3 });
  equal(target, bytes(0x61, 0xC3, 0xA9, 9));
  equal(encoder.encodeInto("😀", target.subarray(1)), { read: 0, written: 0 });
  equal(encoder.encodeInto("😀", target), { read: 2, written: 4 });
  const large = new Uint8Array(1000);
  equal(encoder.encodeInto("x".repeat(2000), large.subarray(10)), { read: 990, written: 990 });
  equal([large[9], large[10]], [0, 120]);
  throws("TypeError", () => encoder.encodeInto("a", new Uint16Array(2)));
  throws("TypeError", () => encoder.encodeInto("a", new ArrayBuffer(2)));
  throws("TypeError", () => encoder.encodeInto("a"));
});

about("TextDecoder");

check("UTF-8 becomes text", () => {
  const decoder = new TextDecoder();
  equal([decoder.encoding, decoder.fatal, decoder.ignoreBOM], ["utf-8", false, false]);
  equal(decoder.decode(bytes(0x61, 0xC3, 0xA9, 0xF0, 0x9F, 0x98, 0x80)), "aé😀");
  equal(decoder.decode(), "");
  equal(decoder.decode(bytes(0x61, 0x62).buffer), "ab");
  equal(decoder.decode(new DataView(bytes(0, 0x61, 0x62).buffer, 1)), "ab");
  equal(decoder.decode(new Uint16Array([0x6261])), "ab");
  equal(decoder.decode(new Uint8Array(1000).fill(97).subarray(500)), "a".repeat(500));
  throws("TypeError", () => decoder.decode("a"));
  throws("TypeError", () => decoder.decode({}));
});

check("each maximal subpart of invalid bytes is replaced, or is an error", () => {
  const decoder = new TextDecoder();
  equal(decoder.decode(bytes(0xFF, 0x61, 0xC3)), "\uFFFDa\uFFFD");
  equal(decoder.decode(bytes(0xF0, 0x9F, 0x98, 0x41)), "\uFFFDA");
  equal(decoder.decode(bytes(0xED, 0xA0, 0x80)), "\uFFFD\uFFFD\uFFFD");
  const fatal = new TextDecoder("utf-8", { fatal: true });
  throws("TypeError", () => fatal.decode(bytes(0xFF)));
  equal(fatal.decode(bytes(0x61)), "a");
});

check("a byte order mark is dropped unless ignoreBOM is set", () => {
  const marked = bytes(0xEF, 0xBB, 0xBF, 0x61);
  equal(new TextDecoder().decode(marked), "a");
  equal(new TextDecoder("utf-8", { ignoreBOM: true }).decode(marked), "\uFEFFa");
  const stream = new TextDecoder();
  equal(stream.decode(marked.subarray(0, 2), { stream: true }) + stream.decode(marked.subarray(2)), "a");
});

check("a stream may split characters anywhere", () => {
  const decoder = new TextDecoder();
  const all = new TextEncoder().encode("aé€😀b");
  let text = "";
  for (const byte of all) text += decoder.decode(bytes(byte), { stream: true });
  text += decoder.decode();
  equal(text, "aé€😀b");
  equal(decoder.decode(bytes(0xC3), { stream: true }), "");
  equal(decoder.decode(), "\uFFFD");
  equal(decoder.decode(bytes(0x61)), "a");
});

check("an error resets a fatal decoder", () => {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  equal(decoder.decode(bytes(0x61, 0xC3), { stream: true }), "a");
  throws("TypeError", () => decoder.decode(bytes(0x61), { stream: true }));
  equal(decoder.decode(bytes(0x62)), "b");
});

check("labels are those of the standard", () => {
  for (const [label, name] of [
    ["UTF8", "utf-8"], [" unicode-1-1-utf-8\n", "utf-8"], ["latin1", "windows-1252"], ["ascii", "windows-1252"],
    ["sjis", "shift_jis"], ["gb2312", "gbk"], ["utf-16", "utf-16le"], ["koi8-r", "koi8-r"],
    ["x-user-defined", "x-user-defined"], ["big5-hkscs", "big5"], ["euc-kr", "euc-kr"], ["iso-2022-jp", "iso-2022-jp"],
  ]) equal(new TextDecoder(label).encoding, name);
  for (const label of ["", "nonsense", "replacement", "iso-2022-kr", "utf-7"]) {
    throws("RangeError", () => new TextDecoder(label));
  }
});

check("other encodings are decoded", () => {
  equal(new TextDecoder("latin1").decode(bytes(0x80, 0xE9)), "€é");
  equal(new TextDecoder("utf-16le").decode(bytes(0x61, 0, 0x3D, 0xD8, 0, 0xDE)), "a😀");
  equal(new TextDecoder("utf-16be").decode(bytes(0xFE, 0xFF, 0, 0x61)), "a");
  equal(new TextDecoder("shift_jis").decode(bytes(0x83, 0x65)), "テ");
  const jis = new TextDecoder("iso-2022-jp");
  equal(jis.decode(bytes(0x1B, 0x24, 0x42, 0x46), { stream: true }) + jis.decode(bytes(0x7C)), "日");
});

check("many unfinished streams may be dropped", () => {
  for (let i = 0; i < 100; i++) new TextDecoder().decode(bytes(0xC3), { stream: true });
});

about("atob, btoa");

check("base64 is read forgivingly and written strictly", () => {
  equal(btoa("hello\xFF"), "aGVsbG//");
  equal(btoa(""), "");
  equal(atob(" aGVs\nbG//"), "hello\xFF");
  equal([atob("YQ"), atob("YQ=="), atob(""), atob("YR")], ["a", "a", "", "a"]);
  equal(atob(null), "\x9E\xE9e");
  for (const wrong of ["Y", "YQ=", "YQ===", "=", "YW!j", "YWJj=", "ü"]) {
    throws("InvalidCharacterError", () => atob(wrong));
  }
  throws("InvalidCharacterError", () => btoa("€"));
  throws("TypeError", () => btoa());
});

about("TextDecoder");

check("options are read before the label is looked up", () => {
  throws("TypeError", () => new TextDecoder("no such encoding", 1));
  throws("Error", () => new TextDecoder("no such encoding", { get fatal() { throw new Error("read"); } }), "read");
});

check("only ASCII whitespace around a label is ignored, and some labels have no decoder", () => {
  equal([" utf8\n", "\tLATIN1\f", "unicode", "x-user-defined"].map((label) => new TextDecoder(label).encoding),
    ["utf-8", "windows-1252", "utf-16le", "x-user-defined"]);
  for (const label of ["", "replacement", "iso-2022-kr", "hz-gb-2312", "utf-32", "\u00a0utf-8"]) throws("RangeError", () => new TextDecoder(label));
});
