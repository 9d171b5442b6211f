// Checks of Request (Fetch §5.4), and of the request that a Worker's handler receives.
import { about, check, equal, rejects, results, throws } from "../check.js";

let incoming;
export default {
  fetch(request) {
    incoming = request;
    return results();
  },
};

about("Request");

check("a request has the defaults of the standard", () => {
  const request = new Request("https://h/a?b#c");
  equal(request.url, "https://h/a?b#c");
  equal(
    [request.method, request.redirect, request.mode, request.credentials, request.cache, request.integrity,
      request.keepalive, request.referrer, request.referrerPolicy, request.destination, request.duplex],
    ["GET", "follow", "cors", "same-origin", "default", "", false, "about:client", "", "", "half"],
  );
  equal(request.bodyUsed, false);
  equal(request.signal.aborted, false);
});

check("methods are normalized, and some are rejected", () => {
  equal(new Request("https://h", { method: "post" }).method, "POST");
  equal(new Request("https://h", { method: "patch" }).method, "patch");
  equal(new Request("https://h", { method: "x-y" }).method, "x-y");
  for (const method of ["", "a b", "connect", "TRACE", "track"]) {
    throws("TypeError", () => new Request("https://h", { method }));
  }
});

check("invalid requests are rejected", () => {
  throws("TypeError", () => new Request());
  throws("TypeError", () => new Request("/relative"));
  throws("TypeError", () => new Request("https://user@h/"));
  throws("TypeError", () => new Request("https://h", { body: "x" }));
  throws("TypeError", () => new Request("https://h", { method: "HEAD", body: "" }));
  throws("TypeError", () => new Request("https://h", { redirect: "x" }));
  throws("TypeError", () => new Request("https://h", { mode: "navigate" }));
  throws("TypeError", () => new Request("https://h", { signal: {} }));
  throws("TypeError", () => new Request("https://h", { window: 1 }));
  throws("TypeError", () => new Request("https://h", 1));
});

check("a URL object is accepted", () => {
  equal(new Request(new URL("https://h/x")).url, "https://h/x");
});

check("a body sets the content type", async () => {
  const contentTypeOf = (body, headers) => new Request("https://h", { method: "POST", body, headers }).headers.get("content-type");
  equal(contentTypeOf("x"), "text/plain;charset=UTF-8");
  equal(contentTypeOf(new URLSearchParams("a=b")), "application/x-www-form-urlencoded;charset=UTF-8");
  equal(contentTypeOf(new Uint8Array(1)), null);
  equal(contentTypeOf("x", { "Content-Type": "a/b" }), "a/b");
  equal(contentTypeOf(null), null);
});

check("a request created from a request inherits its members and takes its body", async () => {
  const first = new Request("https://h/", { method: "POST", headers: { a: "1" }, body: "text", redirect: "manual" });
  const second = new Request(first, { headers: { b: "2" } });
  equal([second.method, second.redirect, [...second.headers]], ["POST", "manual", [["b", "2"]]]);
  equal(first.bodyUsed, true);
  equal(await second.text(), "text");
  throws("TypeError", () => new Request(first));
  throws("TypeError", () => new Request(new Request("https://h", { method: "POST", body: "x" }), { method: "GET" }));
});

check("a clone has its own body and headers", async () => {
  const first = new Request("https://h/", { method: "POST", headers: { a: "1" }, body: new Uint8Array([104, 105]) });
  const second = first.clone();
  second.headers.set("a", "2");
  equal(first.headers.get("a"), "1");
  const bytes = await first.bytes();
  bytes[0] = 0;
  equal(await second.text(), "hi");
  throws("TypeError", () => first.clone());
});

check("the signal of a request follows the given signal", () => {
  const controller = new AbortController();
  const request = new Request("https://h", { signal: controller.signal });
  const clone = request.clone();
  const derived = new Request(request);
  const free = new Request(request, { signal: null });
  controller.abort("why");
  equal([request.signal.reason, clone.signal.reason, derived.signal.reason], ["why", "why", "why"]);
  equal(free.signal.aborted, false);
  equal(request.signal === controller.signal, false);
});

check("an incoming request has the redirect mode manual, and a new request has follow", () => {
  equal([incoming.redirect, incoming.clone().redirect, new Request(incoming.clone()).redirect], ["manual", "manual", "manual"]);
  equal(new Request(incoming.url, { headers: incoming.headers }).redirect, "follow");
});

check("an incoming request can be read", async () => {
  equal(incoming.method, "POST");
  equal(incoming.url, "https://web.test/path?a=1");
  equal(new URL(incoming.url).searchParams.get("a"), "1");
  equal(incoming.headers.get("X-Test"), "yes");
  equal(incoming.headers.get("x-none"), null);
  const clone = incoming.clone();
  equal(await clone.text(), "the body");
  equal(incoming.bodyUsed, false);
  equal(await incoming.text(), "the body");
  equal(incoming.bodyUsed, true);
  await rejects("TypeError", incoming.text());
});

check("the headers of an incoming request cannot be changed, but those of a copy can", () => {
  throws("TypeError", () => incoming.headers.set("a", "b"), "immutable");
  throws("TypeError", () => incoming.headers.append("a", "b"));
  throws("TypeError", () => incoming.headers.delete("x-test"));
  const copy = new Request(incoming.url, { headers: incoming.headers });
  copy.headers.set("x-test", "no");
  equal(copy.headers.get("x-test"), "no");
  equal(incoming.headers.get("x-test"), "yes");
});

check("a subclass is a request", () => {
  class Mine extends Request {
    get mine() {
      return this.url.length;
    }
  }
  equal(new Mine("https://h/").mine, 10);
});

check("the members of an init are read in order", () => {
  const read = [];
  new Request("https://a.test/", new Proxy({}, { get: (_, name) => void read.push(name) }));
  equal(read, [
    "body", "cache", "credentials", "duplex", "headers", "integrity", "keepalive", "method", "mode", "priority", "redirect",
    "referrer", "referrerPolicy", "signal", "window",
  ]);
});

check("enumerated members accept only their values", () => {
  const members = ["cache", "credentials", "duplex", "mode", "priority", "redirect", "referrerPolicy"];
  for (const member of members) throws("TypeError", () => new Request("https://a.test/", { [member]: "other" }), "not a valid value");
  throws("TypeError", () => new Request("https://a.test/", { cache: "only-if-cached" }), "same-origin");
  equal(new Request("https://a.test/", { cache: "only-if-cached", mode: "same-origin" }).cache, "only-if-cached");
  equal(new Request("https://a.test/", { priority: "high", window: null }).url, "https://a.test/");
});

check("a stream as the body needs no other members", async () => {
  const body = new ReadableStream({ start: (controller) => (controller.enqueue(new Uint8Array([104, 105])), controller.close()) });
  const request = new Request("https://a.test/", { method: "PUT", body });
  equal([request.headers.get("content-type"), request.duplex, await request.text()], [null, "half", "hi"]);
});

check("a request whose body is locked can neither be cloned nor be used for another request", async () => {
  const request = new Request("https://a.test/", { method: "POST", body: "text" });
  const reader = request.body.getReader();
  throws("TypeError", () => request.clone());
  throws("TypeError", () => new Request(request));
  await rejects("TypeError", request.text());
  reader.releaseLock();
  equal(await request.text(), "text");
});

check("a request with a used body can be copied only with a new body", async () => {
  const used = new Request("https://a.test/", { method: "POST", body: "old", headers: { a: "b" } });
  await used.text();
  throws("TypeError", () => new Request(used));
  const request = new Request(used, { body: "new" });
  equal([request.headers.get("a"), await request.text()], ["b", "new"]);
  const kept = new Request("https://a.test/", { method: "POST", body: "kept" });
  throws("TypeError", () => new Request(kept, { method: "GET" }));
  equal([kept.bodyUsed, await kept.text()], [false, "kept"]);
});

check("a signal of null detaches a request from the signal of the original", () => {
  const controller = new AbortController();
  const model = new Request("https://a.test/", { signal: controller.signal });
  const [follows, clone, free] = [new Request(model), model.clone(), new Request(model, { signal: null })];
  controller.abort("why");
  equal([follows.signal.reason, clone.signal.reason, free.signal.aborted], ["why", "why", false]);
});
