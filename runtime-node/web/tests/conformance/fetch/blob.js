// Checks of Blob and File (File API §3, §4), and of Blobs as bodies.
import { about, check, equal, logs, rejects, throws } from "../check.js";
export { default } from "../check.js";

const text = async (...parts) => await new Blob(...parts).text();

about("Blob");

check("a Blob without parts is empty and has no type", async () => {
  const blob = new Blob();
  equal([blob.size, blob.type, await blob.text()], [0, "", ""]);
  equal([new Blob([]).size, new Blob(undefined).size, new Blob([], undefined).type, new Blob([], null).type], [0, 0, "", ""]);
});

check("parts are strings, buffers, views and Blobs, and are concatenated in order", async () => {
  const buffer = new Uint8Array([98, 99]).buffer;
  const view = new DataView(new Uint8Array([120, 100, 121]).buffer, 1, 1);
  equal(await text([["a"].join(), buffer, view, new Blob(["e"]), new Uint16Array([0x6766])]), "abcdefg");
});

check("other parts are converted to well-formed strings", async () => {
  equal(await text([1, null, undefined, true, { toString: () => "x" }]), "1nullundefinedtruex");
  equal(await text(["\uD800"]), "\uFFFD");
  equal(new Blob(["\u00FC\u{1F600}"]).size, 6);
});

check("the parts may be any iterable object, and nothing else", async () => {
  equal(await text(new Set(["a", "b"])), "ab");
  equal(await text((function* () { yield "a"; yield "b"; })()), "ab");
  equal(await text(new String("ab")), "ab");
  equal(await text(new Uint8Array([1, 23])), "123");
  for (const parts of [null, 1, "text", true, {}, { length: 1 }, new Date()]) throws("TypeError", () => new Blob(parts));
  throws("TypeError", () => new Blob([], "type"));
  throws("TypeError", () => Blob([]));
});

check("a Blob is not affected by later changes to its source or to copies of its bytes", async () => {
  const bytes = new Uint8Array([97, 97]);
  const blob = new Blob([bytes]);
  bytes.fill(98);
  equal(await blob.text(), "aa");
  (await blob.bytes()).fill(99);
  new Uint8Array(await blob.arrayBuffer()).fill(99);
  new Uint8Array(await new Response(blob).arrayBuffer()).fill(99);
  equal(await blob.text(), "aa");
});

check("the type is in lower case, and empty if one of its characters is not printable", () => {
  const type = (type) => new Blob([], { type }).type;
  equal([type("Text/HTML; Charset=X"), type("a\u00e9"), type("a\u007f"), type("a\t"), type("no type at all"), type(null)],
    ["text/html; charset=x", "", "", "", "no type at all", "null"]);
});

check("the options are read in the order of their names, after the parts", () => {
  const seen = [];
  const read = (name, value) => () => (seen.push(name), value);
  const options = Object.defineProperties({}, { endings: { get: read("endings") }, type: { get: read("type") } });
  new Blob({ [Symbol.iterator]: function* () { seen.push("parts"); yield "a"; } }, options);
  equal(seen, ["parts", "endings", "type"]);
});

check("line endings are unchanged, or converted to native ones", async () => {
  const lines = "a\r\nb\rc\nd\r\r\n";
  equal(await text([lines]), lines);
  equal(await text([lines], { endings: "transparent" }), lines);
  equal(await text([lines, new Uint8Array([13])], { endings: "native" }), "a\nb\nc\nd\n\n\r");
  throws("TypeError", () => new Blob([], { endings: "other" }));
});

check("a slice is a Blob with a range of the bytes", async () => {
  const blob = new Blob(["0123456789"], { type: "text/plain" });
  const cut = async (...args) => await blob.slice(...args).text();
  equal([await cut(), await cut(3), await cut(-3), await cut(2, 5), await cut(2, -5), await cut(-4, -2)],
    ["0123456789", "3456789", "789", "234", "234", "67"]);
  equal([await cut(5, 2), await cut(20), await cut(-20, 2), await cut(0, 99), await cut(NaN, 1), await cut(null, 2)],
    ["", "", "01", "0123456789", "0", "01"]);
  equal([await cut(0.5, 2.5), await cut(1.5, Infinity), await cut(-Infinity, 1)], ["01", "23456789", "0"]);
  equal([blob.slice().type, blob.slice(0, 1, "A/b").type, blob.slice(0, 1, "\u00e9").type], ["", "a/b", ""]);
  equal(await blob.slice(2).slice(2, -2).slice(1, 3).text(), "56");
  equal(blob.slice() === blob, false);
});

check("text, bytes and arrayBuffer return a new copy each time", async () => {
  const blob = new Blob(["\uFEFFa\u00fc", new Uint8Array([255])]);
  equal(await blob.text(), "a\u00fc\uFFFD");
  equal(await blob.bytes(), new Uint8Array([239, 187, 191, 97, 195, 188, 255]));
  equal((await blob.arrayBuffer()).byteLength, 7);
  equal(await blob.bytes() === await blob.bytes(), false);
  await rejects("TypeError", Blob.prototype.text.call({}));
  await rejects("TypeError", Blob.prototype.arrayBuffer.call({}));
});

check("textStream returns a new stream each time", async () => {
  const blob = new Blob(["\uFEFFa\u00fc".repeat(40_000)]);
  for (let i = 0; i < 2; i++) {
    const parts = await Array.fromAsync(blob.textStream());
    equal([parts.join("") === (await blob.text()), parts.length > 1], [true, true]);
  }
  throws("TypeError", () => Blob.prototype.textStream.call({}));
});

check("stream returns a byte stream", async () => {
  const blob = new Blob(["x".repeat(200_000)]);
  const reader = blob.stream().getReader();
  let length = 0, chunks = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    equal(value instanceof Uint8Array, true);
    length += value.length;
    chunks++;
    value.fill(0);
  }
  equal([length, chunks > 1], [200_000, true]);
  equal(await blob.slice(0, 3).text(), "xxx");
  const empty = await new Blob().stream().getReader().read();
  equal(empty.done, true);
  const byob = blob.stream().getReader({ mode: "byob" });
  equal((await byob.read(new Uint8Array(4))).value, new Uint8Array([120, 120, 120, 120]));
});

about("File");

check("a File has a name and a modification time", async () => {
  const before = Date.now();
  const file = new File(["a", "b"], "n\uD800.txt", { type: "A/B" });
  equal([file.name, file.size, file.type, await file.text()], ["n\uFFFD.txt", 2, "a/b", "ab"]);
  equal(file.lastModified >= before && file.lastModified <= Date.now(), true);
  equal(file instanceof Blob, true);
  equal(new File([], "/a/b").name, "/a/b");
  const time = (lastModified) => new File([], "", { lastModified }).lastModified;
  equal([time(5), time(-1.9), time(NaN), time("7"), time(new Date(9)), time(null), time(2 ** 64 + 4096)],
    [5, -1, 0, 7, 9, 0, 4096]);
  equal(file.slice() instanceof File, false);
});

check("a File needs parts and a name", () => {
  throws("TypeError", () => new File());
  throws("TypeError", () => new File([]));
  throws("TypeError", () => new File("a", "b"));
  throws("TypeError", () => new File(undefined, "b"));
  throws("TypeError", () => new File(null, "b"));
  equal(new File([], undefined).name, "undefined");
  const seen = [];
  new File({ [Symbol.iterator]: function* () { seen.push("parts"); } }, { toString: () => (seen.push("name"), "") }, {
    get type() { seen.push("type"); return ""; },
    get lastModified() { seen.push("lastModified"); return 0; },
    get endings() { seen.push("endings"); return undefined; },
  });
  equal(seen, ["parts", "name", "endings", "type", "lastModified"]);
});

check("attributes cannot be set", () => {
  const file = new File(["a"], "name");
  throws("TypeError", () => { file.size = 2; });
  throws("TypeError", () => { file.name = "other"; });
  throws("TypeError", () => Object.getOwnPropertyDescriptor(Blob.prototype, "size").get.call({}));
  throws("TypeError", () => Object.getOwnPropertyDescriptor(File.prototype, "name").get.call(new Blob()));
  equal([String(file), String(new Blob()), Blob.length, File.length], ["[object File]", "[object Blob]", 0, 2]);
  equal(Object.keys(Blob.prototype), ["size", "type", "slice", "stream", "textStream", "text", "arrayBuffer", "bytes"]);
});

about("Blob");

check("a Blob can be a body, and its type becomes the body's type", async () => {
  const response = new Response(new Blob(["a"], { type: "x/y" }));
  equal([response.headers.get("content-type"), await response.text()], ["x/y", "a"]);
  equal(new Response(new Blob(["a"])).headers.get("content-type"), null);
  equal(new Response(new Blob([], { type: "x/y" }), { headers: { "content-type": "a/b" } }).headers.get("content-type"), "a/b");
  const request = new Request("https://host/", { method: "POST", body: new File(["f"], "n", { type: "f/g" }) });
  equal([request.headers.get("content-type"), await request.clone().text(), await request.text()], ["f/g", "f", "f"]);
});

check("a body is a Blob of its type", async () => {
  const blob = await new Response("a\u00fc", { headers: { "content-type": "Text/HTML;charset=\"utf-8\" ; Q=a\\b" } }).blob();
  equal([blob instanceof Blob, blob.size, blob.type], [true, 3, "text/html;charset=utf-8;q=\"a\\\\b\""]);
  equal((await new Response("a").blob()).type, "text/plain;charset=utf-8");
  equal((await new Response("a", { headers: { "content-type": "nonsense" } }).blob()).type, "");
  equal((await new Response(new Uint8Array(2)).blob()).type, "");
  const nothing = await new Response().blob();
  equal([nothing.size, nothing.type], [0, ""]);
  const used = new Response("a");
  await used.blob();
  equal(used.bodyUsed, true);
  await rejects("TypeError", used.blob());
  await rejects("TypeError", Response.prototype.blob.call({}));
});

check("the last of several types applies, with the charset of the previous type", async () => {
  const type = async (...values) => {
    const headers = new Headers();
    for (const value of values) headers.append("content-type", value);
    return (await new Response("", { headers }).blob()).type;
  };
  equal(await type("text/plain;charset=gbk", "text/html"), "text/html");
  equal(await type("text/html;charset=gbk;a=b", "text/html;x=y"), "text/html;x=y;charset=gbk");
  equal(await type("text/html;charset=gbk;a=b", "text/html;x=\",\""), "text/html;x=\",\";charset=gbk");
  equal(await type("text/html;charset=gbk", "text/html;x=y", "text/plain", "*/*", "bad"), "text/plain");
});

check("the console shows the attributes of Blobs and Files", () => {
  logs("INFO", "Blob { size: 1, type: 'a/b' }", () => console.log(new Blob(["x"], { type: "a/b" })));
  logs("INFO", "File { name: 'n', size: 1, type: '', lastModified: 3 }",
    () => console.log(new File(["x"], "n", { lastModified: 3 })));
});
