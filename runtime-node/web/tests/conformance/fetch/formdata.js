// Checks of FormData (XMLHttpRequest §4), and of forms as bodies.
import { about, check, equal, logs, rejects, throws } from "../check.js";
export { default } from "../check.js";

const form = (...pairs) => {
  const made = new FormData();
  for (const pair of pairs) made.append(...pair);
  return made;
};
const shown = (data) => [...data].map(([name, value]) => [name, typeof value === "string" ? value : value.name]);

about("FormData");

check("entries are kept in the order in which they are appended", () => {
  const data = form(["a", "1"], ["b", 2], ["a", null]);
  equal(shown(data), [["a", "1"], ["b", "2"], ["a", "null"]]);
  equal([data.get("a"), data.get("z"), data.getAll("a"), data.getAll("z"), data.has("b"), data.has("z")],
    ["1", null, ["1", "null"], [], true, false]);
});

check("set replaces the first entry of a name and removes the others", () => {
  const data = form(["a", "1"], ["b", "2"], ["a", "3"], ["a", "4"]);
  data.set("a", "5");
  data.set("c", "6");
  equal(shown(data), [["a", "5"], ["b", "2"], ["c", "6"]]);
});

check("delete removes all entries of a name", () => {
  const data = form(["a", "1"], ["b", "2"], ["a", "3"]);
  data.delete("a");
  data.delete("z");
  equal(shown(data), [["b", "2"]]);
});

check("a Blob becomes a File called blob", async () => {
  const data = form(["f", new Blob(["x"], { type: "a/b" })]);
  const file = data.get("f");
  equal([file instanceof File, file.name, file.type, await file.text()], [true, "blob", "a/b", "x"]);
  equal(data.get("f") === file, true);
});

check("a File stays the same unless it gets another name", async () => {
  const file = new File(["x"], "name", { type: "a/b", lastModified: 5 });
  const data = form(["f", file], ["g", file, "other"], ["h", new Blob(), "third"], ["i", file, undefined]);
  equal(data.get("f") === file, true);
  equal(data.get("i") === file, true);
  const renamed = data.get("g");
  equal([renamed.name, renamed.type, renamed.lastModified, await renamed.text()], ["other", "a/b", 5, "x"]);
  equal(data.get("h").name, "third");
});

check("only a Blob has a file name", () => {
  throws("TypeError", () => form(["a", "b", "c"]));
  throws("TypeError", () => new FormData().set("a", {}, "c"));
  throws("TypeError", () => form(["a"]));
  throws("TypeError", () => new FormData().append());
  throws("TypeError", () => new FormData({}));
  throws("TypeError", () => new FormData(null));
  equal([...new FormData(undefined)], []);
  throws("TypeError", () => FormData());
  throws("TypeError", () => FormData.prototype.append.call({}, "a", "b"));
});

check("names and values are well-formed", () => {
  equal(shown(form(["\uD800", "\uDC00"])), [["\uFFFD", "\uFFFD"]]);
});

check("iteration sees changes that are made during it", () => {
  const data = form(["a", "1"], ["b", "2"]);
  equal([[...data.keys()], [...data.values()], [...data.entries()]], [["a", "b"], ["1", "2"], [["a", "1"], ["b", "2"]]]);
  equal(data[Symbol.iterator] === data.entries, true);
  const seen = [];
  data.forEach(function (value, name, whole) { seen.push(value, name, whole === data, this); }, 7);
  equal(seen.length, 8);
  const names = [];
  for (const [name] of data) {
    names.push(name);
    if (name === "a") data.append("c", "3");
  }
  equal(names, ["a", "b", "c"]);
  equal([String(data), String(data.keys())], ["[object FormData]", "[object FormData Iterator]"]);
});

check("a form is encoded as multipart/form-data", async () => {
  const response = new Response(form(["a", "1\n2"], ["b\"\r\n", "\r"], ["f", new File(["x"], "n\"\n.txt", { type: "a/b" })]));
  const type = response.headers.get("content-type");
  const boundary = type.slice("multipart/form-data; boundary=".length);
  equal(type.startsWith("multipart/form-data; boundary="), true);
  equal(/^[-'()+,./:=?0-9A-Za-z_]{27,70}$/.test(boundary), true);
  equal(await response.text(), [
    `--${boundary}`, 'Content-Disposition: form-data; name="a"', "", "1\r\n2",
    `--${boundary}`, 'Content-Disposition: form-data; name="b%22%0D%0A"', "", "\r\n",
    `--${boundary}`, 'Content-Disposition: form-data; name="f"; filename="n%22%0A.txt"', "Content-Type: a/b", "", "x",
    `--${boundary}--`, "",
  ].join("\r\n"));
});

check("each body has a different boundary", () => {
  const type = () => new Response(form(["a", "b"])).headers.get("content-type");
  equal(type() === type(), false);
});

check("formData parses an encoded form", async () => {
  const bytes = new Uint8Array(300_000).map((_, i) => i * 7);
  const sent = form(["a", "\u00fc\u{1F600}"], ["", ""], ["a", "line\r\n--line"], ["f", new File([bytes], "b\u00e4r\".bin")], ["e", new Blob()]);
  const request = new Request("https://host/", { method: "POST", body: sent });
  const got = await request.formData();
  equal(shown(got), [["a", "\u00fc\u{1F600}"], ["", ""], ["a", "line\r\n--line"], ["f", "b\u00e4r\".bin"], ["e", "blob"]]);
  equal([got.get("f").type, got.get("f").size, got.get("e").size], ["application/octet-stream", 300_000, 0]);
  const back = await got.get("f").bytes();
  equal(back.every((byte, i) => byte === bytes[i]), true);
  equal(request.bodyUsed, true);
});

const parse = async (body, type = "multipart/form-data; boundary=b") =>
  await new Response(body, { headers: { "content-type": type } }).formData();

check("multipart bodies of other encoders are parsed", async () => {
  const body = (headers, value = "v") => `--b\r\n${headers}\r\n\r\n${value}\r\n--b--\r\n`;
  const one = async (...args) => [...await parse(body(...args))].map(([name, value]) =>
    typeof value === "string" ? [name, value] : [name, value.name, value.type, value.size])[0];
  equal(await one('Content-Disposition: form-data; name="n"'), ["n", "v"]);
  equal(await one('CONTENT-DISPOSITION:form-data;name=n'), ["n", "v"]);
  equal(await one('content-disposition: form-data; name="n"; filename="f"'), ["n", "f", "text/plain", 1]);
  equal(await one('content-type: a/b\r\ncontent-disposition: form-data; name="n"; filename="f"'), ["n", "f", "a/b", 1]);
  equal(await one('x-other: y\r\nContent-Disposition: form-data; filename=""; name="n"\r\nContent-Length: 1'),
    ["n", "", "text/plain", 1]);
  equal(await one('content-disposition: form-data; name="a%22%0D%0A%41"'), ["a\"\r\n%41", "v"]);
  equal(await one('content-disposition: form-data; name="a\\"b\\c"'), ["a\"b\\c", "v"]);
  equal(await one('content-disposition: form-data; name="a\\"; filename="b\\"'), ["a\\", "b\\", "text/plain", 1]);
  equal(await one('content-disposition: form-data; name="a\\""'), ["a\"", "v"]);
  equal(await one('content-disposition: form-data; name="n"; filename="ä.txt"; filename*=UTF-8\'\'x'),
    ["n", "ä.txt", "text/plain", 1]);
  equal(await one('content-disposition: form-data; name="n"', ""), ["n", ""]);
  equal(await one('content-disposition: form-data; name="n"', "\uFEFFv"), ["n", "\uFEFFv"]);
  equal(await one('content-disposition: form-data; name="n"\r\ncontent-type: text/plain; charset=latin1', "ü"), ["n", "ü"]);
});

check("a multipart body may have a preamble, an epilogue and padding", async () => {
  const part = 'content-disposition: form-data; name="n"\r\n\r\nv';
  equal(shown(await parse(`--b\r\n${part}\r\n--b--`)), [["n", "v"]]);
  equal(shown(await parse(`preamble\r\n--b \t\r\n${part}\r\n--b\r\n${part}\r\n--b--\r\nepilogue`)), [["n", "v"], ["n", "v"]]);
  equal(shown(await parse("--b--\r\n")), []);
});

check("a malformed multipart body is an error", async () => {
  const part = 'content-disposition: form-data; name="n"\r\n\r\nv';
  for (const body of [
    "", "--b", "--b\r\n", "--c--", "x", `--b\r\n${part}`, `--b\r\n${part}\r\n`, `--b\r\n${part}\r\n--b`, `--b\r\n${part}\r\n--bx`,
    `--b\r\n${part}\r\n--bad\r\n--b--`,
    `--b\n${part}\r\n--b--`, "--b\r\n\r\nv\r\n--b--", "--b\r\ncontent-type: a/b\r\n\r\nv\r\n--b--",
    "--b\r\ncontent-disposition: form-data\r\n\r\nv\r\n--b--", "--b\r\ncontent-disposition: attachment; name=n\r\n\r\nv\r\n--b--",
    "--b\r\nno header\r\n\r\nv\r\n--b--", `--b\r\n${part.replace("\r\n\r\n", "\r\n")}\r\n--b--`,
  ]) {
    await rejects("TypeError", parse(body));
  }
  await rejects("TypeError", parse("--b--", "multipart/form-data"), "boundary");
  await rejects("TypeError", parse("--b--", "multipart/mixed; boundary=b"), "multipart/mixed");
  await rejects("TypeError", new Response("a=b").formData(), "text/plain");
  await rejects("TypeError", new Response(new Uint8Array(1)).formData(), "no type");
});

check("the number of parts and the size of their headers are bounded", async () => {
  const part = '--b\r\ncontent-disposition: form-data; name="n"\r\n\r\nv\r\n';
  equal([...await parse(`${part.repeat(10_000)}--b--`)].length, 10_000);
  await rejects("TypeError", parse(`${part.repeat(10_001)}--b--`), "10000");
  await rejects("TypeError", parse(`--b\r\nx: ${"y".repeat(20_000)}\r\n${part.slice(5)}--b--`), "headers");
});

check("a boundary may be quoted, and may occur within the lines of a file", async () => {
  const body = '--a b\r\ncontent-disposition: form-data; name="n"; filename=f\r\n\r\n --a b\r\n-a b--\n--a b\r\n--a b--';
  const file = (await parse(body, 'multipart/form-data; boundary="a b"')).get("n");
  equal(await file.text(), " --a b\r\n-a b--\n--a b");
});

check("a URL-encoded body is parsed as a form", async () => {
  const type = "application/x-www-form-urlencoded";
  equal(shown(await parse("a=1&b=%C3%BC+x&a=&c", type)), [["a", "1"], ["b", "\u00fc x"], ["a", ""], ["c", ""]]);
  equal(shown(await parse("", type)), []);
  equal(shown(await new Response(new URLSearchParams({ a: "b c" })).formData()), [["a", "b c"]]);
  equal(shown(await parse("\uFEFFa=b", `${type};charset=windows-1252`)), [["\uFEFFa", "b"]]);
  equal((await parse(`${"a=%41&".repeat(50_000)}a=b`, type)).getAll("a").length, 50_001);
});

check("a form can be read once", async () => {
  const response = new Response(form(["a", "b"]));
  await response.formData();
  await rejects("TypeError", response.formData());
  await rejects("TypeError", Response.prototype.formData.call({}));
});

check("the console shows the entries", () => {
  logs("INFO", "FormData { a: '1', f: File { name: 'blob', size: 1, type: '', lastModified: 3 } }",
    () => console.log(form(["a", "1"], ["f", new File(["x"], "blob", { lastModified: 3 })])));
});
