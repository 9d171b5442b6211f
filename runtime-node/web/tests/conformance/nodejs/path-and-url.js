// Checks of node:path, node:url, node:querystring and node:string_decoder.
import path, { basename, dirname, extname, format, isAbsolute, join, normalize, parse, relative, resolve, sep } from "node:path";
import posix from "node:path/posix";
import url, { URL as ModuleURL, fileURLToPath, pathToFileURL } from "node:url";
import querystring from "node:querystring";
import { StringDecoder } from "node:string_decoder";
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

about("node:path, node:url");

check("paths are normalized, joined and resolved", () => {
  equal(["/a/./b//../c/", "a/../..", "", "./", "/..", "a//b", "../a/../b"].map(normalize), ["/a/c/", "..", ".", "./", "/", "a/b", "../b"]);
  equal([join("/a", "..", "b", "./c"), join(""), join("a", "", "b"), join("..", "a")], ["/b/c", ".", "a/b", "../a"]);
  equal([resolve("/a/b", "../c", "./d"), resolve("a"), resolve("/a", "/b/"), resolve("")], ["/a/c/d", "/a", "/b", "/"]);
  equal([relative("/a/b/c", "/a/d"), relative("/a", "/a"), relative("/", "/a")], ["../../d", "", "a"]);
  equal([isAbsolute("/a"), isAbsolute("a"), isAbsolute("")], [true, false, false]);
  equal([path.posix === path, posix === path, sep, path.delimiter], [true, true, "/", ":"]);
  equal(throws("TypeError", () => join(1)).code, "ERR_INVALID_ARG_TYPE");
});

check("paths are taken apart and put together", () => {
  equal(["/a/b", "/a/b/", "a", "/a", "", "/", "a/b//c", "//a"].map(dirname), ["/a", "/a", ".", "/", ".", "/", "a/b", "//"]);
  equal([basename("/a/b.js"), basename("/a/b.js", ".js"), basename("/a/b/"), basename(".js", ".js"), basename("/")], ["b.js", "b", "b", ".js", ""]);
  equal(["a.js", "a.b.js", "a.", ".a", ".a.b", "a", "a/.b/c", ".."].map(extname), [".js", ".js", ".", "", ".b", "", "", ""]);
  equal(parse("/home/user/file.txt"), { root: "/", dir: "/home/user", base: "file.txt", ext: ".txt", name: "file" });
  equal(parse("./a/b"), { root: "", dir: "./a", base: "b", ext: "", name: "b" });
  equal(parse("a"), { root: "", dir: "", base: "a", ext: "", name: "a" });
  equal([format({ dir: "/a", base: "b.c" }), format({ root: "/", name: "b", ext: "c" }), format({ base: "x" })], ["/a/b.c", "/b.c", "x"]);
});

check("file URLs and paths are converted to each other", () => {
  equal(ModuleURL === URL, true);
  equal([fileURLToPath("file:///a%20b/c"), fileURLToPath(new URL("file:///é"))], ["/a b/c", "/é"]);
  equal([pathToFileURL("/a b/c?d#e%").href, pathToFileURL("/x/").href], ["file:///a%20b/c%3Fd%23e%25", "file:///x/"]);
  equal(throws("TypeError", () => fileURLToPath("https://a")).code, "ERR_INVALID_URL_SCHEME");
  equal(throws("TypeError", () => fileURLToPath("file:///a%2Fb")).code, "ERR_INVALID_FILE_URL_PATH");
});

check("URLs are formatted, resolved and parsed", () => {
  const example = new URL("https://a:b@test.example:8080/p?q#f");
  equal(url.format(example, { auth: false, fragment: false, search: false }), "https://test.example:8080/p");
  equal(url.format({ protocol: "https", host: "a.test", pathname: "p", query: { x: [1, 2] } }), "https://a.test/p?x=1&x=2");
  equal([url.resolve("/one/two", "three"), url.resolve("http://a.test/one", "/two")], ["/one/three", "http://a.test/two"]);
  const { hostname, port, path: at, auth } = url.urlToHttpOptions(example);
  equal([hostname, port, at, auth], ["test.example", 8080, "/p?q", "a:b"]);
  equal(url.domainToASCII("español.com"), "xn--espaol-zwa.com");
  throws("Error", () => url.parse("http://a"), "new URL");
});

check("query strings are parsed and serialized", () => {
  const parsed = querystring.parse("a=1&b=2&a=3&c&d=%E2%82%AC+x&=e&&f=g=h");
  equal({ ...parsed }, { a: ["1", "3"], b: "2", c: "", d: "€ x", "": "e", f: "g=h" });
  equal({ ...querystring.parse("a:1;b:2", ";", ":") }, { a: "1", b: "2" });
  equal(Object.keys(querystring.parse("a&b&c", null, null, { maxKeys: 2 })), ["a", "b"]);
  equal(querystring.parse("a=%ZZ%41").a, "%ZZA");
  equal(querystring.unescapeBuffer("%1 %\t1%0x%e2%4").latin1Slice(), "%1 %\t1%0x\xE2%4");
  equal(querystring.stringify({ a: [1, "x y"], b: true, c: null, d: "€", e: NaN }), "a=1&a=x%20y&b=true&c=&d=%E2%82%AC&e=");
  equal(querystring.stringify({ a: 1, b: 2 }, ";", ":"), "a:1;b:2");
  equal([querystring.escape("a b"), querystring.unescape("a%20b")], ["a%20b", "a b"]);
  equal([querystring.encode === querystring.stringify, querystring.decode === querystring.parse], [true, true]);
  equal(Object.getPrototypeOf(querystring.parse("__proto__=1")), null);
});

check("a StringDecoder waits for the rest of a character", () => {
  const text = "aé€😀b";
  for (const encoding of ["utf8", "utf16le", "base64", "hex", "latin1", "base64url"]) {
    const bytes = Buffer.from(encoding === "latin1" ? "aéb" : text, encoding === "utf16le" || encoding === "latin1" ? encoding : "utf8");
    const decoder = new StringDecoder(encoding);
    let out = "";
    for (const byte of bytes) out += decoder.write(Buffer.from([byte]));
    out += decoder.end();
    equal(out, bytes.toString(encoding), encoding);
  }
  const decoder = new StringDecoder();
  equal([decoder.write(Buffer.from([0xE2, 0x82])), decoder.lastNeed, decoder.lastTotal, decoder.end()], ["", 1, 3, "\uFFFD"]);
  equal([decoder.write(Buffer.from([0xE2])), decoder.write(Buffer.from([0x61])), decoder.end()], ["", "\uFFFDa", ""]);
  equal(throws("TypeError", () => new StringDecoder("x")).code, "ERR_UNKNOWN_ENCODING");
});

check("a constructor function can inherit from StringDecoder", () => {
  function Mine() { StringDecoder.call(this, "utf8"); }
  Mine.prototype = StringDecoder.prototype;
  const mine = new Mine();
  equal([mine.write(Buffer.from([0xe2, 0x82])), mine.write(Buffer.from([0xac])), Object.keys(mine)], ["", "€", ["encoding"]]);
});
