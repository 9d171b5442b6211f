// Checks of fetch (Fetch §5.6) as far as it needs no origin; `runtime-node/tests/fetch` has the
// rest.

import { about, check, equal, rejects, throws } from "../check.js";

export { default } from "../check.js";

about("fetch");

check("fetch takes one argument, and is a function of the global object that may be replaced", () => {
  const { value, ...rest } = Object.getOwnPropertyDescriptor(globalThis, "fetch");
  equal([typeof value, value.name, value.length, rest.writable, rest.configurable], ["function", "fetch", 1, true, true]);
});

check("every error is a rejection, never an exception", async () => {
  await rejects("TypeError", fetch(), "1 argument required");
  await rejects("TypeError", fetch("no url"), "not an absolute URL");
  await rejects("TypeError", fetch("https://user:word@a.test/"), "credentials");
  await rejects("TypeError", fetch("https://a.test/", { method: "TRACE" }), "not allowed");
  await rejects("TypeError", fetch("https://a.test/", { body: "x" }), "cannot have a body");
  await rejects("TypeError", fetch("https://a.test/", { signal: {} }), "AbortSignal");
  await rejects("TypeError", fetch("https://a.test/", { redirect: "other" }), "not a valid value");
});

check("duplex for a stream as the body is half or omitted", async () => {
  const body = () => new ReadableStream();
  await rejects("TypeError", fetch("https://a.test/", { method: "POST", body: body(), duplex: "full" }), "duplex");
  for (const duplex of ["half", undefined]) {
    await rejects("TypeError", fetch("https://a.test/", { method: "POST", body: body(), duplex }), "cannot be resolved");
  }
});

check("the argument is converted to a string, and an exception in the conversion rejects the promise", async () => {
  const response = await fetch({ toString: () => "data:,converted" });
  equal(await response.text(), "converted");
  await rejects("Error", fetch({ toString() { throw new Error("mine"); } }), "mine");
});

check("a data: URL contains its response", async () => {
  const response = await fetch("data:text/plain;charset=utf-8,caf%C3%A9#fragment");
  equal([response.status, response.statusText, response.ok, response.type, response.redirected], [200, "OK", true, "basic", false]);
  equal(response.url, "data:text/plain;charset=utf-8,caf%C3%A9");
  equal([...response.headers], [["content-type", "text/plain;charset=utf-8"]]);
  equal(await response.text(), "caf\u00e9");
});

check("a data: URL with a missing or malformed type is text/plain;charset=US-ASCII", async () => {
  const type = async (url) => (await fetch(url)).headers.get("content-type");
  equal(await type("data:,x"), "text/plain;charset=US-ASCII");
  equal(await type("data:;charset=x,y"), "text/plain;charset=x");
  equal(await type("data:nonsense,y"), "text/plain;charset=US-ASCII");
  equal(await type("data:TEXT/HTML,y"), "text/html");
});

check("a data: URL's base64 is decoded forgivingly, and invalid base64 is a network error", async () => {
  const text = async (url) => (await fetch(url)).text();
  equal(await text("data:;base64,YQ"), "a");
  equal(await text("data:; base64,Y%20W%0AI="), "ab");
  await rejects("TypeError", fetch("data:;base64,Y"), "fetch failed");
  await rejects("TypeError", fetch("data:no-comma"), "fetch failed");
});

check("a Request can be fetched, and its init overridden", async () => {
  const request = new Request("data:,from%20a%20request");
  equal(await (await fetch(request)).text(), "from a request");
  equal(await (await fetch(request, { method: "HEAD" })).text(), "");
});

check("a Request whose body has been used cannot be fetched", async () => {
  const request = new Request("https://a.test/", { method: "POST", body: "x" });
  await request.text();
  await rejects("TypeError", fetch(request), "used");
});

check("fetch consumes the body of a Request", async () => {
  const request = new Request("data:,x", { method: "POST", body: "x" });
  await fetch(request);
  equal(request.bodyUsed, true);
});

check("a response's headers are immutable, and those of a Response created from it are not", async () => {
  const response = await fetch("data:,x");
  throws("TypeError", () => response.headers.append("a", "b"));
  const copy = new Response(response.body, response);
  copy.headers.set("a", "b");
  equal([copy.headers.get("a"), await copy.text()], ["b", "x"]);
});

check("an aborted signal rejects with its reason before anything is sent", async () => {
  const reason = { is: "mine" };
  let got;
  await fetch("http://127.0.0.1/", { signal: AbortSignal.abort(reason) }).catch((error) => (got = error));
  equal(got === reason, true);
  await rejects("AbortError", fetch("data:,x", { signal: AbortSignal.abort() }));
  await rejects("AbortError", fetch(new Request("data:,x", { signal: AbortSignal.abort() })));
});

check("a fetch that fails is a TypeError whose cause names the stage and the remedy", async () => {
  const error = await rejects("TypeError", fetch("http://127.0.0.1/"), "fetch failed: 127.0.0.1 is a loopback address");
  equal([error.cause.stage, error.cause instanceof Error, error.cause.message.includes("--egress-allow")], ["policy", true, true]);
  equal(Object.keys(error.cause), []);
});

check("the error for another scheme names the supported ones", async () => {
  for (const url of ["blob:https://a.test/1", "about:blank", "ftp://a.test/", "file:///etc/passwd", "ws://a.test/"]) {
    await rejects("TypeError", fetch(url), "http:, https: and data:");
  }
});

check("bad ports are refused", async () => {
  for (const port of [1, 22, 25, 6667, 10080]) await rejects("TypeError", fetch(`http://a.test:${port}/`), `port ${port}`);
});

check("the response to HEAD for a data: URL has no body", async () => {
  const response = await fetch("data:,text", { method: "HEAD" });
  equal([response.headers.get("content-type"), response.body, await response.text()], ["text/plain;charset=US-ASCII", null, ""]);
});
