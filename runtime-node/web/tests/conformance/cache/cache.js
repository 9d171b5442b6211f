// Checks of Service Workers §5.4 (Cache) and §5.5 (CacheStorage), with the rules of RFC 9111 for
// storing responses.
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

const fresh = (body = "kept", headers = {}) => new Response(body, { headers: { "cache-control": "max-age=60", ...headers } });
let urls = 0;
const nextUrl = () => `https://origin.test/${urls++}`;

about("Cache");

check("match returns a stored response with its status, headers and body", async () => {
  const url = nextUrl();
  await caches.default.put(url, new Response("here", { status: 404, statusText: "Gone", headers: { "cache-control": "max-age=9", "x-a": "b" } }));
  const found = await caches.default.match(new Request(url));
  equal([found.status, found.statusText, found.headers.get("x-a"), found.url, await found.text()], [404, "Gone", "b", url, "here"]);
  equal(found.headers.has("age"), true);
  throws("TypeError", () => found.headers.set("a", "b"));
});

check("a stored response can be read repeatedly", async () => {
  const url = nextUrl();
  await caches.default.put(url, fresh());
  for (let i = 0; i < 3; i++) equal(await (await caches.default.match(url)).text(), "kept");
});

check("a body of any kind can be stored", async () => {
  const stream = new ReadableStream({
    start(controller) {
      for (const part of ["a", "b", "c"]) controller.enqueue(new TextEncoder().encode(part));
      controller.close();
    },
  });
  for (const [body, text] of [["text", "text"], [new Uint8Array([104, 105]), "hi"], [null, ""], [stream, "abc"], [new Blob(["blob"]), "blob"]]) {
    const url = nextUrl();
    await caches.default.put(url, fresh(body));
    equal(await (await caches.default.match(url)).text(), text);
  }
});

check("put consumes the body, and rejects a response whose body is used", async () => {
  const response = fresh();
  await caches.default.put(nextUrl(), response);
  equal(response.bodyUsed, true);
  await rejects("TypeError", caches.default.put(nextUrl(), response));
  const clone = fresh("twice");
  const url = nextUrl();
  await caches.default.put(url, clone.clone());
  equal([await clone.text(), await (await caches.default.match(url)).text()], ["twice", "twice"]);
});

check("put replaces an earlier response", async () => {
  const url = nextUrl();
  await caches.default.put(url, fresh("one"));
  await caches.default.put(url, fresh("two"));
  equal(await (await caches.default.match(url)).text(), "two");
});

check("caches of different names are separate", async () => {
  const url = nextUrl();
  const [one, same, other] = [await caches.open("one"), await caches.open("one"), await caches.open("")];
  await one.put(url, fresh());
  equal(await (await same.match(url)).text(), "kept");
  equal([await other.match(url), await caches.default.match(url)], [undefined, undefined]);
});

check("delete returns whether there was a response", async () => {
  const url = nextUrl();
  await caches.default.put(url, fresh());
  equal([await caches.default.delete(url), await caches.default.delete(url), await caches.default.match(url)], [true, false, undefined]);
});

check("URLs that differ only in the fragment are the same key, and those that differ in the query are not", async () => {
  const url = nextUrl();
  await caches.default.put(`${url}#a`, fresh());
  equal(await (await caches.default.match(`${url}#b`)).text(), "kept");
  equal(await caches.default.match(`${url}?b`), undefined);
});

check("requests with methods other than GET match only with ignoreMethod", async () => {
  const url = nextUrl();
  await caches.default.put(url, fresh());
  const post = new Request(url, { method: "POST", body: "x" });
  equal(await caches.default.match(post), undefined);
  equal(await (await caches.default.match(post, { ignoreMethod: true })).text(), "kept");
  equal(post.bodyUsed, false);
  equal([await caches.default.delete(post), await caches.default.delete(post, { ignoreMethod: true })], [false, true]);
  await rejects("TypeError", caches.default.put(post, fresh()), "GET");
});

check("responses that HTTP forbids a shared cache to store are not stored", async () => {
  for (const headers of [{ "cache-control": "no-store" }, { "cache-control": "private, max-age=9" }, { "cache-control": "max-age=0" }, {}, { "cache-control": "max-age=9", "set-cookie": "a=1" }]) {
    const url = nextUrl();
    await caches.default.put(url, new Response("x", { headers }));
    equal(await caches.default.match(url), undefined, JSON.stringify(headers));
  }
});

check("s-maxage takes precedence over max-age", async () => {
  const url = nextUrl();
  await caches.default.put(url, fresh("shared", { "cache-control": "max-age=0, s-maxage=60" }));
  equal(await (await caches.default.match(url)).text(), "shared");
});

check("a response with Vary matches only requests with the same headers", async () => {
  const url = nextUrl();
  const by = (language) => new Request(url, { headers: { "accept-language": language } });
  await caches.default.put(by("de"), fresh("Guten Tag", { vary: "Accept-Language" }));
  equal(await (await caches.default.match(by("de"))).text(), "Guten Tag");
  equal(await caches.default.match(by("fr")), undefined);
  await rejects("TypeError", caches.default.put(url, fresh("x", { vary: "accept, *" })), "Vary");
});

check("a conditional request gets 304 if the client's copy is current", async () => {
  const url = nextUrl();
  await caches.default.put(url, fresh("kept", { etag: '"1"', "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT" }));
  const asked = async (headers) => {
    const found = await caches.default.match(new Request(url, { headers }));
    return [found.status, await found.text()];
  };
  equal(await asked({ "if-none-match": '"0", W/"1"' }), [304, ""]);
  equal(await asked({ "if-none-match": '"2"' }), [200, "kept"]);
  equal(await asked({ "if-modified-since": "Mon, 07 Nov 1994 00:00:00 GMT" }), [304, ""]);
});

check("put rejects requests and responses that cannot be stored, with the reason", async () => {
  await rejects("TypeError", caches.default.put("data:,x", fresh()), "http");
  await rejects("TypeError", caches.default.put(nextUrl(), new Response(null, { status: 206 })), "206");
  await rejects("TypeError", caches.default.put(nextUrl(), {}), "Response");
  await rejects("TypeError", caches.default.put(nextUrl()));
  await rejects("TypeError", caches.default.match());
  await rejects("TypeError", caches.default.match("not a URL"));
  await rejects("TypeError", caches.open("x".repeat(300)).then((cache) => cache.match(nextUrl())), "256");
});

check("a body that fails is not stored, and put rejects with its error", async () => {
  const url = nextUrl();
  const broken = new ReadableStream({
    pull(controller) {
      controller.enqueue(new Uint8Array(3));
      controller.error(new RangeError("no more"));
    },
  });
  await rejects("RangeError", caches.default.put(url, fresh(broken)), "no more");
  equal(await caches.default.match(url), undefined);
});

check("a response that is too large is not stored", async () => {
  const url = nextUrl();
  await caches.default.put(url, fresh(new Uint8Array((8 << 20) + 1)));
  equal(await caches.default.match(url), undefined);
});

check("Cache and CacheStorage behave like other interfaces", async () => {
  throws("TypeError", () => new Cache());
  throws("TypeError", () => new CacheStorage());
  equal([String(caches), String(caches.default)], ["[object CacheStorage]", "[object Cache]"]);
  equal(caches.default === caches.default, true);
  equal((await caches.open("a")) instanceof Cache, true);
  await rejects("TypeError", Cache.prototype.match.call({}, nextUrl()));
  throws("TypeError", () => CacheStorage.prototype.default);
});
