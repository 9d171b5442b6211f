// Checks of node:buffer.
import buffer, { Buffer as Named, constants, isAscii, isUtf8, kMaxLength, transcode } from "node:buffer";
import bare from "buffer";
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

// Checks that `body` throws an error with this code.
const coded = (code, body) => equal(throws(code.startsWith("ERR_OUT") || code.includes("BUFFER") ? "RangeError" : "TypeError", body).code, code);
const hex = (bytes) => bytes.toString("hex");

about("node:buffer");

check("Buffer is a global, an export of the module, and a subclass of Uint8Array", () => {
  equal([Named === Buffer, buffer.Buffer === Buffer, bare === buffer], [true, true, true]);
  const made = Buffer.from("abc");
  equal([made instanceof Buffer, made instanceof Uint8Array, made.constructor === Buffer], [true, true, true]);
  equal([Buffer.isBuffer(made), Buffer.isBuffer(new Uint8Array(1)), Buffer.isBuffer(null)], [true, false, false]);
  equal([typeof kMaxLength, constants.MAX_LENGTH === kMaxLength, typeof buffer.atob, typeof buffer.Blob], ["number", true, "function", "function"]);
  equal([buffer.atob("YQ=="), buffer.btoa("a")], ["a", "YQ=="]);
});

check("from takes arrays, array-likes, buffers, array buffers, strings and objects that convert to these", () => {
  equal(hex(Buffer.from([1, 257, -1, 2.5, "7"])), "0101ff0207");
  equal(hex(Buffer.from({ length: 2, 0: 3, 1: 4 })), "0304");
  equal(hex(Buffer.from(new Uint16Array([1, 256]))), "0100");
  const memory = new ArrayBuffer(4);
  const shares = Buffer.from(memory, 1, 2);
  shares[0] = 9;
  equal([new Uint8Array(memory)[1], shares.length, shares.byteOffset], [9, 2, 1]);
  const copy = Buffer.from(shares);
  copy[0] = 1;
  equal(shares[0], 9);
  equal(Buffer.from(new String("x")).toString(), "x");
  equal(Buffer.from({ [Symbol.toPrimitive]: () => "p" }).toString(), "p");
  equal(hex(Buffer.from({ type: "Buffer", data: [1, 2] })), "0102");
  for (const wrong of [undefined, null, 1, true, {}, Symbol("x"), () => {}]) coded("ERR_INVALID_ARG_TYPE", () => Buffer.from(wrong));
  coded("ERR_BUFFER_OUT_OF_BOUNDS", () => Buffer.from(memory, 5));
  coded("ERR_BUFFER_OUT_OF_BOUNDS", () => Buffer.from(memory, 1, 4));
});

check("alloc is filled, and sizes are checked", () => {
  equal(hex(Buffer.alloc(3)), "000000");
  equal(hex(Buffer.alloc(5, "ab")), "6162616261");
  equal(hex(Buffer.alloc(3, 1)), "010101");
  equal(hex(Buffer.alloc(4, "YWI=", "base64")), "61626162");
  equal([Buffer.allocUnsafe(7).length, Buffer.allocUnsafeSlow(7).length], [7, 7]);
  coded("ERR_INVALID_ARG_TYPE", () => Buffer.alloc("1"));
  coded("ERR_OUT_OF_RANGE", () => Buffer.alloc(-1));
  coded("ERR_OUT_OF_RANGE", () => Buffer.alloc(NaN));
});

check("the deprecated constructor works, with and without new", () => {
  equal(hex(new Buffer("ab")), "6162");
  equal(hex(Buffer([1])), "01");
  equal(hex(new Buffer(2)), "0000");
});

check("text can be encoded and decoded in every encoding", () => {
  const text = "aé€😀";
  for (const encoding of ["utf8", "utf-8", "UTF8", "utf16le", "ucs2", "ucs-2", "UTF-16LE"]) {
    equal(Buffer.from(text, encoding).toString(encoding), text, encoding);
  }
  equal(hex(Buffer.from(text)), "61c3a9e282acf09f9880");
  equal(hex(Buffer.from("é😀", "utf16le")), "e9003dd800de");
  equal(hex(Buffer.from("aé€", "latin1")), "61e9ac");
  equal(hex(Buffer.from("aé€", "ascii")), "61e9ac");
  equal(Buffer.from([0x61, 0xE9]).toString("latin1"), "aé");
  equal(Buffer.from([0x61, 0xE9]).toString("binary"), "aé");
  equal(Buffer.from([0x61, 0xE9]).toString("ascii"), "ai");
  equal(hex(Buffer.from("61FFzz61", "hex")), "61ff");
  equal(hex(Buffer.from("616", "hex")), "61");
  equal(Buffer.from([255, 0, 16]).toString("hex"), "ff0010");
  equal(Buffer.from("abcd").toString("base64"), "YWJjZA==");
  equal(Buffer.from([0xFB, 0xEF, 0xFF, 1]).toString("base64url"), "--__AQ");
  for (const base64 of ["YWJjZA==", "YWJjZA", " YWJj\nZA="]) {
    equal(Buffer.from(base64, "base64").toString(), "abcd", base64);
  }
  equal(hex(Buffer.from("--__AQ", "base64")), "fbefff01");
  equal(hex(Buffer.from("++//AQ==", "base64url")), "fbefff01");
  equal(Buffer.from("YQ==YQ==", "base64").toString(), "a");
  coded("ERR_UNKNOWN_ENCODING", () => Buffer.from("a", "utf9"));
  coded("ERR_UNKNOWN_ENCODING", () => Buffer.from("a").toString("nothing"));
});

check("invalid UTF-8 and lone surrogates become the replacement character, and a byte order mark is kept", () => {
  equal(Buffer.from([0x61, 0xFF, 0xC3]).toString(), "a\uFFFD\uFFFD");
  equal(hex(Buffer.from("\uD800a")), "efbfbd61");
  equal(Buffer.from([0xEF, 0xBB, 0xBF, 0x61]).toString(), "\uFEFFa");
});

check("long text, which is converted in pieces, round-trips", () => {
  const text = "aé€😀".repeat(300_000);
  for (const encoding of ["utf8", "base64", "hex", "latin1"]) {
    const bytes = encoding === "latin1" ? Buffer.from(text.replace(/[^a-é]/gu, ""), encoding) : Buffer.from(text);
    const round = Buffer.from(bytes.toString(encoding), encoding);
    equal(round.equals(bytes), true, encoding);
  }
  equal(Buffer.from(text, "utf16le").toString("utf16le") === text, true);
  equal(Buffer.byteLength(text), 10 * 300_000);
  const spaced = `${"YWJj\n".repeat(400_000)}YQ==`;
  equal(Buffer.from(spaced, "base64").length, 1_200_001);
});

check("toString converts a range", () => {
  const bytes = Buffer.from("abcdef");
  equal([bytes.toString("utf8", 1, 3), bytes.toString(undefined, 4), bytes.toString("utf8", -3, 100), bytes.toString("utf8", 4, 2)], ["bc", "ef", "abcdef", ""]);
  equal([bytes.utf8Slice(1, 3), bytes.hexSlice(0, 1), bytes.latin1Slice()], ["bc", "61", "abcdef"]);
});

check("byteLength returns the encoded length", () => {
  equal([Buffer.byteLength("aé€😀"), Buffer.byteLength("aé", "latin1"), Buffer.byteLength("ab", "utf16le")], [10, 2, 4]);
  equal([Buffer.byteLength("abcd", "hex"), Buffer.byteLength("YWI=", "base64"), Buffer.byteLength("YWI", "base64url")], [2, 2, 2]);
  equal([Buffer.byteLength(new ArrayBuffer(3)), Buffer.byteLength(new Uint16Array(3))], [3, 6]);
  coded("ERR_INVALID_ARG_TYPE", () => Buffer.byteLength(1));
});

check("write writes whole characters only", () => {
  const bytes = Buffer.alloc(6);
  equal([bytes.write("ab"), hex(bytes)], [2, "616200000000"]);
  equal([bytes.write("xyz", 4), hex(bytes)], [2, "616200007879"]);
  equal([bytes.write("€€", 1, 4), hex(bytes)], [3, "61e282ac7879"]);
  equal([bytes.write("ff00", "hex"), bytes.write("AAAA", 2, "base64"), bytes.write("é", 5, 1, "latin1")], [2, 3, 1]);
  equal(hex(bytes), "ff00000000e9");
  coded("ERR_OUT_OF_RANGE", () => bytes.write("a", 7));
  coded("ERR_INVALID_ARG_TYPE", () => bytes.write(1));
});

check("concat concatenates, and truncates or pads to a length", () => {
  equal(Buffer.concat([Buffer.from("ab"), new Uint8Array([99]), Buffer.alloc(0)]).toString(), "abc");
  equal(Buffer.concat([Buffer.from("abc")], 2).toString(), "ab");
  equal(hex(Buffer.concat([Buffer.from("ab")], 4)), "61620000");
  equal(Buffer.concat([]).length, 0);
  coded("ERR_INVALID_ARG_TYPE", () => Buffer.concat("a"));
  coded("ERR_INVALID_ARG_TYPE", () => Buffer.concat(["a"]));
});

check("slice and subarray share memory", () => {
  const bytes = Buffer.from("abcdef");
  const part = bytes.slice(1, -1);
  equal([part.toString(), Buffer.isBuffer(part), bytes.subarray(-2).toString(), bytes.slice(4, 2).length], ["bcde", true, "ef", 0]);
  part[0] = 0x58;
  equal(bytes.toString(), "aXcdef");
  equal(Buffer.isBuffer(bytes.map((x) => x)), true);
});

check("bytes are compared", () => {
  const [a, b] = [Buffer.from("abc"), Buffer.from("abd")];
  equal([Buffer.compare(a, b), Buffer.compare(b, a), Buffer.compare(a, a), Buffer.compare(a, Buffer.from("ab"))], [-1, 1, 0, 1]);
  equal([a.equals(Buffer.from("abc")), a.equals(new Uint8Array([97, 98, 99])), a.equals(b)], [true, true, false]);
  equal([a.compare(b, 0, 2, 0, 2), a.compare(b, 2), a.compare(b, 0, 1, 2), a.compare(b, 0, 0)], [0, -1, 1, 1]);
  equal([b, a].sort(Buffer.compare).map(String), ["abc", "abd"]);
  const large = Buffer.alloc(3_000_000, 1);
  const other = Buffer.from(large);
  other[2_999_999] = 2;
  equal([large.equals(other), large.compare(other)], [false, -1]);
  coded("ERR_INVALID_ARG_TYPE", () => a.equals("abc"));
});

check("copy copies bytes into another buffer, or within one", () => {
  const bytes = Buffer.from("abcdef");
  const target = Buffer.alloc(4);
  equal([bytes.copy(target, 1, 2), target.toString("latin1")], [3, "\0cde"]);
  equal([bytes.copy(bytes, 2, 0, 4), bytes.toString()], [4, "ababcd"]);
  equal([bytes.copy(target, 9), bytes.copy(target, 0, 3, 1)], [0, 0]);
  coded("ERR_OUT_OF_RANGE", () => bytes.copy(target, 0, 7));
  coded("ERR_OUT_OF_RANGE", () => bytes.copy(target, -1));
});

check("fill repeats a number, text or bytes", () => {
  equal(Buffer.alloc(5).fill("abc").toString(), "abcab");
  equal(hex(Buffer.alloc(4).fill(0x1FF)), "ffffffff");
  equal(hex(Buffer.alloc(4).fill("é", 1)), "00c3a9c3");
  equal(hex(Buffer.alloc(4).fill("0102", 1, 3, "hex")), "00010200");
  equal(hex(Buffer.alloc(3, 1).fill("")), "000000");
  equal(hex(Buffer.alloc(3).fill(new Uint8Array([7, 8]))), "070807");
  coded("ERR_OUT_OF_RANGE", () => Buffer.alloc(3).fill(1, 4));
  coded("ERR_INVALID_ARG_VALUE", () => Buffer.alloc(3).fill(new Uint8Array(0)));
});

check("bytes are found from the front and from the back", () => {
  const bytes = Buffer.from("this is a buffer");
  equal([bytes.indexOf("is"), bytes.indexOf("is", 3), bytes.indexOf("is", -12), bytes.indexOf(Buffer.from("a buffer"))], [2, 5, 5, 8]);
  equal([bytes.indexOf(97), bytes.indexOf(97 + 256), bytes.indexOf("nothing"), bytes.indexOf("is", 100)], [8, 8, -1, -1]);
  equal([bytes.lastIndexOf("is"), bytes.lastIndexOf("is", 4), bytes.lastIndexOf("is", -13), bytes.lastIndexOf(102, 12)], [5, 2, 2, 12]);
  equal([bytes.lastIndexOf("this", 0), bytes.lastIndexOf("x"), bytes.lastIndexOf("is", -100)], [0, -1, -1]);
  equal([bytes.includes("buffer"), bytes.includes("buffer", 11), bytes.includes("746869", "hex")], [true, false, true]);
  equal([bytes.indexOf(""), bytes.indexOf("", 3), bytes.indexOf("", 99), bytes.lastIndexOf("")], [0, 3, 16, 16]);
  const utf16 = Buffer.from("\u0061\u6100\u0061", "utf16le");
  equal([utf16.indexOf("\u6100", "utf16le"), utf16.indexOf("\u0061", 1, "utf16le")], [2, 4]);
  equal([utf16.lastIndexOf("\u0061", "utf16le"), utf16.lastIndexOf("\u0061", 3, "utf16le"), utf16.lastIndexOf("\u6100", "utf16le")], [4, 0, 2]);
  const odd = Buffer.alloc(2_000_001, "\u0061", "utf16le");
  equal([odd.subarray(0, 9).lastIndexOf("\u6100", "utf16le"), odd.lastIndexOf("\u0061", "utf16le")], [-1, 1_999_998]);
  equal(odd.lastIndexOf("\u6100".repeat(500_000), "utf16le"), -1);
  const large = Buffer.alloc(4_000_000, "ab");
  large.write("needle", 3_999_000);
  equal([large.indexOf("needle"), large.lastIndexOf("needle"), large.lastIndexOf("ab", 1_000_001), large.indexOf("ba", 786_430)], [3_999_000, 3_999_000, 1_000_000, 786_431]);
  const long = Buffer.concat([Buffer.from("x"), large, Buffer.from("y"), large, Buffer.from("z")]);
  equal([long.indexOf(large), long.indexOf(large, 2), long.lastIndexOf(large), long.lastIndexOf(large, 4_000_000)], [1, 4_000_002, 4_000_002, 1]);
  equal([long.indexOf(Buffer.concat([large, Buffer.from("w")])), long.lastIndexOf(Buffer.concat([large, Buffer.from("y")]))], [-1, 1]);
  coded("ERR_INVALID_ARG_TYPE", () => bytes.indexOf({}));
});

check("swaps change the order of bytes", () => {
  const bytes = () => Buffer.from([1, 2, 3, 4, 5, 6, 7, 8]);
  equal([hex(bytes().swap16()), hex(bytes().swap32()), hex(bytes().swap64())], ["0201040306050807", "0403020108070605", "0807060504030201"]);
  coded("ERR_INVALID_BUFFER_SIZE", () => Buffer.alloc(3).swap16());
});

check("numbers of fixed sizes are written and read", () => {
  const bytes = Buffer.alloc(8);
  for (const [name, value, size, text] of [
    ["UInt8", 0xFE, 1, "fe"], ["Int8", -2, 1, "fe"], ["UInt16LE", 0x1234, 2, "3412"], ["UInt16BE", 0x1234, 2, "1234"],
    ["Int16LE", -2, 2, "feff"], ["Int16BE", -2, 2, "fffe"], ["UInt32LE", 0xFEDCBA98, 4, "98badcfe"], ["UInt32BE", 0xFEDCBA98, 4, "fedcba98"],
    ["Int32LE", -2, 4, "feffffff"], ["Int32BE", -2, 4, "fffffffe"],
    ["BigInt64LE", -2n, 8, "feffffffffffffff"], ["BigInt64BE", -2n, 8, "fffffffffffffffe"],
    ["BigUInt64LE", 0x0102030405060708n, 8, "0807060504030201"], ["BigUInt64BE", 0x0102030405060708n, 8, "0102030405060708"],
    ["FloatLE", 0.5, 4, "0000003f"], ["FloatBE", 0.5, 4, "3f000000"], ["DoubleLE", -0.5, 8, "000000000000e0bf"], ["DoubleBE", -0.5, 8, "bfe0000000000000"],
  ]) {
    equal(bytes[`write${name}`](value, 0), size, name);
    equal(bytes.hexSlice(0, size), text, name);
    equal(bytes[`read${name}`](), value, name);
    const alias = name.replace("UInt", "Uint");
    equal(bytes[`read${alias}`](0), value, alias);
  }
});

check("integers of one to six bytes are written and read", () => {
  const bytes = Buffer.alloc(6);
  for (let size = 1; size <= 6; size++) {
    const most = 2 ** (8 * size) - 1;
    for (const [value, kind] of [[most - 1, "UInt"], [-2, "Int"], [2 ** (8 * size - 1) - 1, "Int"], [-(2 ** (8 * size - 1)), "Int"]]) {
      for (const end of ["LE", "BE"]) {
        equal(bytes[`write${kind}${end}`](value, 0, size), size);
        equal(bytes[`read${kind}${end}`](0, size), value, `${kind}${end} ${size}`);
      }
    }
  }
  bytes.writeUIntBE(0x123456, 1, 3);
  equal(bytes.hexSlice(1, 4), "123456");
  for (const [value, text] of [[-0.5, "0000"], [-1.5, "ffff"], [-300.5, "fed4"], [1.5, "0001"], [NaN, "0000"]]) {
    bytes.writeInt16BE(value);
    equal(bytes.hexSlice(0, 2), text, `${value}`);
  }
});

check("numbers that are out of range, and offsets that are out of bounds, are refused", () => {
  const bytes = Buffer.alloc(4);
  coded("ERR_OUT_OF_RANGE", () => bytes.writeUInt8(256));
  coded("ERR_OUT_OF_RANGE", () => bytes.writeInt16LE(-32769));
  coded("ERR_OUT_OF_RANGE", () => bytes.writeUIntBE(2 ** 24, 0, 3));
  coded("ERR_OUT_OF_RANGE", () => Buffer.alloc(8).writeBigUInt64LE(-1n));
  coded("ERR_INVALID_ARG_TYPE", () => Buffer.alloc(8).writeBigInt64LE(1));
  coded("ERR_OUT_OF_RANGE", () => bytes.readUInt32LE(1));
  coded("ERR_OUT_OF_RANGE", () => bytes.readUInt8(-1));
  coded("ERR_OUT_OF_RANGE", () => bytes.readUInt8(1.5));
  coded("ERR_OUT_OF_RANGE", () => bytes.readUIntLE(0, 7));
  coded("ERR_INVALID_ARG_TYPE", () => bytes.readUInt8("1"));
  coded("ERR_INVALID_ARG_TYPE", () => bytes.readUIntLE(0));
  coded("ERR_BUFFER_OUT_OF_BOUNDS", () => bytes.readDoubleLE(0));
  equal(throws("RangeError", () => bytes.writeUInt8(256)).message,
    'The value of "value" is out of range. It must be >= 0 and <= 255. Received 256');
});

check("a Buffer is converted to JSON and back", () => {
  equal(JSON.stringify(Buffer.from("ab")), '{"type":"Buffer","data":[97,98]}');
  equal(Buffer.from(JSON.parse(JSON.stringify(Buffer.from("ab")))).toString(), "ab");
});

check("methods work on any Uint8Array", () => {
  equal(Buffer.prototype.toString.call(new Uint8Array([97, 98]), "hex"), "6162");
  equal(Buffer.prototype.readUInt16BE.call(new Uint8Array([1, 2])), 258);
  const names = [];
  for (const name in Buffer.prototype) names.push(name);
  equal([names.includes("writeInt8"), names.includes("toString"), names.includes("constructor")], [true, true, false]);
});

check("isEncoding, copyBytesFrom, isAscii, isUtf8 and transcode behave as in Node.js", () => {
  equal(["utf8", "HEX", "base64url", "utf/8", "", 1].map(Buffer.isEncoding), [true, true, true, false, false, false]);
  equal(hex(Buffer.copyBytesFrom(new Uint16Array([1, 2, 3]), 1, 1)), "0200");
  equal([isAscii(Buffer.from("a")), isAscii(Buffer.from("é")), isUtf8(Buffer.from("é")), isUtf8(new Uint8Array([255]))], [true, false, true, false]);
  equal(hex(transcode(Buffer.from("a€é"), "utf8", "latin1")), "613fe9");
  equal(hex(transcode(Buffer.from("a€"), "utf8", "ucs2")), "6100ac20");
});

check("a detached buffer is empty", () => {
  const bytes = Buffer.from(new ArrayBuffer(8));
  bytes.buffer.transfer();
  equal([bytes.length, bytes.toString(), bytes.indexOf(0), bytes.fill(1).length], [0, "", -1, 0]);
  coded("ERR_BUFFER_OUT_OF_BOUNDS", () => bytes.readUInt8(0));
});
