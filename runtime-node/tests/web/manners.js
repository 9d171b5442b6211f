// What Web IDL asks of every interface, and what a Worker cannot do to ours.
import { check, equal, rejects, throws } from "./check.js";
export { default } from "./check.js";

const INTERFACES = [
  "AbortController", "AbortSignal", "Crypto", "CryptoKey", "CustomEvent", "DOMException", "ErrorEvent", "Event", "EventTarget",
  "ExtendableEvent", "FetchEvent", "Headers", "Navigator", "Performance", "PromiseRejectionEvent", "Request",
  "Response", "TextDecoder", "TextEncoder", "URL", "URLSearchParams",
];

check("interfaces are on the global object, writable and not enumerable", () => {
  for (const name of INTERFACES) {
    const { value, ...flags } = Object.getOwnPropertyDescriptor(globalThis, name);
    equal(flags, { writable: true, enumerable: false, configurable: true }, name);
    equal([value.name, Object.prototype.toString.call(value.prototype)], [name, `[object ${name}]`]);
    throws("TypeError", () => value(), "");
  }
});

check("members are enumerable, except for the constructor and symbols", () => {
  for (const name of INTERFACES) {
    const { prototype } = globalThis[name];
    for (const key of Reflect.ownKeys(prototype)) {
      const expected = typeof key === "string" && key !== "constructor";
      equal(Object.getOwnPropertyDescriptor(prototype, key).enumerable, expected, `${name}.${String(key)}`);
    }
  }
});

check("lengths are the numbers of required arguments", () => {
  equal([URL, Headers, Request, Response, TextDecoder, Event, EventTarget].map((f) => f.length), [1, 0, 1, 0, 0, 1, 0]);
  equal([Headers.prototype.append.length, URLSearchParams.prototype.get.length, Headers.prototype.forEach.length], [2, 1, 1]);
  equal([Response.json.length, Response.redirect.length, URL.canParse.length, btoa.length], [1, 1, 1, 1]);
});

check("a member refuses what is not its own", async () => {
  for (const name of INTERFACES) {
    const { prototype } = globalThis[name];
    for (const key of Object.keys(prototype)) {
      const { get, value } = Object.getOwnPropertyDescriptor(prototype, key);
      if (get !== undefined) throws("TypeError", () => Reflect.apply(get, {}, []));
      else if (typeof value === "function" && value.constructor.name === "AsyncFunction") {
        await rejects("TypeError", Reflect.apply(value, {}, []));
      } else if (typeof value === "function") throws("TypeError", () => Reflect.apply(value, {}, []));
    }
  }
});

check("iterators have the shape of the platform's", () => {
  const iterator = new Headers({ a: "1" })[Symbol.iterator]();
  equal(Object.prototype.toString.call(iterator), "[object Headers Iterator]");
  equal(iterator[Symbol.iterator]() === iterator, true);
  equal(Headers.prototype[Symbol.iterator] === Headers.prototype.entries, true);
  equal(Object.keys(Object.getPrototypeOf(iterator)), ["next"]);
  throws("TypeError", () => Object.getPrototypeOf(iterator).next.call({}));
});

check("singletons cannot be made", () => {
  throws("TypeError", () => new Navigator());
  throws("TypeError", () => new Performance());
  throws("TypeError", () => new Crypto());
  equal(navigator.userAgent, "Tenon");
  equal(typeof performance.now(), "number");
});

check("random values are random", () => {
  const values = new Uint32Array(8);
  equal(crypto.getRandomValues(values) === values, true);
  equal(values.some((value) => value !== 0), true);
  const part = new Uint8Array(40);
  crypto.getRandomValues(part.subarray(8, 40));
  equal([part.subarray(0, 8).every((b) => b === 0), part.subarray(8).some((b) => b !== 0)], [true, true]);
  equal(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()), true);
  equal(crypto.randomUUID() === crypto.randomUUID(), false);
  throws("TypeMismatchError", () => crypto.getRandomValues(new Float32Array(1)));
  throws("QuotaExceededError", () => crypto.getRandomValues(new Uint8Array(65537)));
});

check("nothing of the inside can be reached", () => {
  for (const name of ["internal", "primordials", "ops", "SharedArrayBuffer"]) equal(name in globalThis, false, name);
});

check("a Worker that changes the language breaks only itself", async () => {
  const { defineProperty, getOwnPropertyDescriptor } = Object;
  const hostile = () => {
    throw new Error("hostile");
  };
  // Flat, because nothing of the language is to be relied on once this has begun: object, member, object, member, …
  const members = [
    [Array.prototype, [Symbol.iterator, "push", "sort", "splice", "shift", "join", "includes", "slice", "map", "forEach"]],
    [String.prototype, ["slice", "toLowerCase", "indexOf", "includes", "replace", "split", "trim", "charCodeAt",
      "toWellFormed", "startsWith"]],
    [RegExp.prototype, ["exec", "test", Symbol.match]],
    [Map.prototype, ["get", "set", "has", "delete"]],
    [Function.prototype, ["call", "apply", "bind"]],
    [Object, ["defineProperty", "keys", "getOwnPropertyDescriptor"]],
    [JSON, ["stringify", "parse"]],
    [Promise.prototype, ["then"]],
    [Response.prototype, ["status", "headers"]],
    [Headers.prototype, ["get", Symbol.iterator]],
  ].flatMap(([object, keys]) => keys.flatMap((key) => [object, key]));
  const before = [];
  let outcome;
  try {
    for (let i = 0; i < members.length; i += 2) {
      before[i] = getOwnPropertyDescriptor(members[i], members[i + 1]);
      const change = "value" in before[i] ? { value: hostile } : { get: hostile };
      defineProperty(members[i], members[i + 1], change);
    }
    const url = new URL("https://h:1/p?a=1&b=%20#c");
    url.searchParams.append("z", "y");
    url.searchParams.sort();
    const headers = new Headers({ b: " 2 ", A: "1" });
    headers.append("set-cookie", "x");
    const request = new Request(url, { method: "post", headers, body: "ü" });
    const text = await request.clone().text();
    outcome = [url.href, request.method, text];
    outcome[3] = await Response.json([1]).text();
    outcome[4] = new TextDecoder().decode(new TextEncoder().encode("é"));
    outcome[5] = atob(btoa("x"));
    new EventTarget().dispatchEvent(new Event("x"));
    console.debug({ a: [1, new Map()] }, headers, url, request, new Response(""));
  } catch (error) {
    outcome = error;
  } finally {
    for (let i = 0; i < members.length; i += 2) defineProperty(members[i], members[i + 1], before[i]);
  }
  if (outcome instanceof Error) throw outcome;
  equal(outcome, ["https://h:1/p?a=1&b=+&z=y#c", "POST", "ü", "[1]", "é", "x"]);
});
