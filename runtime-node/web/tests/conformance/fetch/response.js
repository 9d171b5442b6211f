// Checks of Response (Fetch §5.5) and of bodies (§5.3).
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

about("Response");

check("a response has the defaults of the standard", () => {
  const response = new Response();
  equal(
    [response.status, response.statusText, response.ok, response.type, response.url, response.redirected],
    [200, "", true, "default", "", false],
  );
  equal([...response.headers], []);
});

check("status and text are checked", () => {
  equal(new Response("", { status: 404, statusText: "Not Here" }).statusText, "Not Here");
  equal(new Response("", { status: 404 }).ok, false);
  equal(new Response("", { status: "201" }).status, 201);
  for (const status of [0, 100, 101, 199, 600, 1000, NaN]) throws("RangeError", () => new Response("", { status }));
  for (const statusText of ["\n", "\0", "ü\u{100}"]) throws("TypeError", () => new Response("", { statusText }));
  throws("TypeError", () => new Response("", 1));
});

check("responses with some statuses cannot have a body", () => {
  for (const status of [204, 205, 304]) {
    throws("TypeError", () => new Response("", { status }));
    equal(new Response(null, { status }).status, status);
    equal(new Response(undefined, { status }).status, status);
  }
});

check("json creates a response from a value", async () => {
  const response = Response.json({ a: [1] }, { status: 201, headers: { x: "y" } });
  equal([response.status, response.headers.get("content-type"), response.headers.get("x")], [201, "application/json", "y"]);
  equal(await response.text(), '{"a":[1]}');
  equal(Response.json(1, { headers: { "content-type": "a/b" } }).headers.get("content-type"), "a/b");
  throws("TypeError", () => Response.json(undefined));
  throws("TypeError", () => Response.json(Symbol()));
  throws("TypeError", () => Response.json());
  throws("TypeError", () => Response.json(1n));
});

check("redirect creates a response with a location", () => {
  const response = Response.redirect("https://h/a b", 307);
  equal([response.status, response.headers.get("location")], [307, "https://h/a%20b"]);
  equal(Response.redirect("https://h").status, 302);
  throws("RangeError", () => Response.redirect("https://h", 200));
  throws("TypeError", () => Response.redirect("nonsense"));
  throws("TypeError", () => response.headers.set("a", "b"));
});

check("error creates a network error", () => {
  const response = Response.error();
  equal([response.type, response.status, response.ok], ["error", 0, false]);
});

check("a body can be read in every form", async () => {
  equal(await new Response("é").text(), "é");
  equal(await new Response('{"a":1}').json(), { a: 1 });
  equal(await new Response("é").bytes(), new Uint8Array([0xC3, 0xA9]));
  const buffer = await new Response("ab").arrayBuffer();
  equal([buffer instanceof ArrayBuffer, buffer.byteLength], [true, 2]);
  equal(await new Response(null).text(), "");
  equal((await new Response().bytes()).length, 0);
  await rejects("SyntaxError", new Response("{").json());
  await rejects("SyntaxError", new Response().json());
});

check("a body can be read once", async () => {
  const response = new Response("x");
  equal(response.bodyUsed, false);
  const first = response.text();
  equal(response.bodyUsed, true);
  await rejects("TypeError", response.text(), "already been used");
  equal(await first, "x");
  throws("TypeError", () => response.clone());
  const none = new Response();
  await none.text();
  equal([none.bodyUsed, await none.text()], [false, ""]);
});

check("bodies are created from strings, bytes, parameters and values that convert to a string", async () => {
  const bytes = new Uint8Array([0, 97, 98, 0]);
  equal(await new Response(bytes.subarray(1, 3)).text(), "ab");
  equal(await new Response(bytes.buffer).bytes(), bytes);
  equal(await new Response(new DataView(bytes.buffer, 1, 1)).text(), "a");
  equal(await new Response(new Uint16Array([0x6261])).text(), "ab");
  equal(await new Response(new URLSearchParams("a=b c")).text(), "a=b+c");
  equal(await new Response({ toString: () => "made" }).text(), "made");
  equal(await new Response(7).text(), "7");
  throws("TypeError", () => new Response(Symbol()));
});

check("later changes to its source do not affect a body", async () => {
  const bytes = new Uint8Array([97]);
  const response = new Response(bytes);
  bytes[0] = 98;
  equal(await response.text(), "a");
});

check("text is decoded as UTF-8, with replacement characters and without a byte order mark", async () => {
  equal(await new Response(new Uint8Array([0xEF, 0xBB, 0xBF, 0x61, 0xFF])).text(), "a\uFFFD");
  equal(await new Response("\uFEFFa").text(), "a");
  equal(await new Response("a\uD800").text(), "a\uFFFD");
  equal(await new Response("\uFEFF[1]").json(), [1]);
});

check("a clone has its own body and headers", async () => {
  const first = new Response("x", { status: 201, headers: { a: "1" } });
  const second = first.clone();
  second.headers.set("a", "2");
  equal([first.headers.get("a"), second.status, await first.text(), await second.text()], ["1", 201, "x", "x"]);
});

check("a clone is read independently of its original, even if the body was accessed before", async () => {
  for (const make of [() => new Response("abc"), () => new Response(new Uint8Array([97, 98, 99])), () => new Response(new Blob(["abc"]))]) {
    for (const cloneFirst of [true, false]) {
      const original = make();
      original.body;
      const clone = original.clone();
      const [first, second] = cloneFirst ? [clone, original] : [original, clone];
      equal(await first.text(), "abc");
      equal([first.bodyUsed, second.bodyUsed], [true, false]);
      equal(await second.text(), "abc");
    }
  }
});

check("bytes from a body's stream are not shared with the source of the body", async () => {
  const blob = new Blob(["hello"]);
  const given = await new Response(new Response(blob).body).arrayBuffer();
  new Uint8Array(given)[0] = 72;
  equal(await blob.text(), "hello");
  structuredClone(given, { transfer: [given] });
  equal([await blob.text(), blob.size], ["hello", 5]);
  const response = new Response(new Uint8Array([1, 2]));
  const clone = response.clone();
  (await new Response(response.body).bytes())[0] = 9;
  equal(await clone.bytes(), new Uint8Array([1, 2]));
});

check("textStream returns the text as a stream", async () => {
  const read = async (stream) => (await Array.fromAsync(stream)).join("");
  equal(await read(new Response("\uFEFFa\u00fc").textStream()), "a\u00fc");
  equal(await read(new Response(new Uint8Array([0xC3])).textStream()), "\uFFFD");
  equal(await read(new Request("https://h", { method: "POST", body: "text" }).textStream()), "text");
  equal(await read(new Response(null).textStream()), "");
  const response = new Response("once");
  equal([response.textStream() instanceof ReadableStream, response.bodyUsed], [true, true]);
  throws("TypeError", () => response.textStream());
  const locked = new Response("x");
  locked.body.getReader();
  throws("TypeError", () => locked.textStream());
  throws("TypeError", () => Response.prototype.textStream.call({}));
});

check("methods of a body reject a wrong receiver instead of throwing", async () => {
  await rejects("TypeError", Response.prototype.text.call({}));
  await rejects("TypeError", Response.prototype.json.call(new Request("https://h")));
});

check("an asynchronous iterable of bytes is a body, as in Node.js", async () => {
  const pieces = async function* () {
    yield new TextEncoder().encode("one, ");
    yield new TextEncoder().encode("two");
  };
  const response = new Response(pieces());
  equal([response.headers.get("content-type"), await response.text()], [null, "one, two"]);
  await rejects("TypeError", new Response((async function* () { yield "text"; })()).text());
  equal(await new Response(["a", "b"]).text(), "a,b");
});
