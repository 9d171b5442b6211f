// Checks that every interface meets the requirements of Web IDL, and that changes to built-in
// objects do not affect the interfaces.
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

// Classes of JavaScript itself, to which Web IDL does not apply.
const LANGUAGE = new Set([
  "Array", "ArrayBuffer", "AsyncDisposableStack", "BigInt", "DataView", "DisposableStack", "FinalizationRegistry", "Iterator",
  "Map", "Promise", "Set", "Symbol", "WeakMap", "WeakRef", "WeakSet",
]);

// The names of all classes on the global object whose instances have the name as their tag.
const INTERFACES = Object.getOwnPropertyNames(globalThis).filter((name) => {
  const { prototype } = Object(globalThis[name]);
  return !LANGUAGE.has(name) && prototype?.[Symbol.toStringTag] === name;
}).sort();

// The interfaces of WinterTC's Minimum Common Web API.
const COMMON = [
  "AbortController", "AbortSignal", "Blob", "ByteLengthQueuingStrategy", "CompressionStream", "CountQueuingStrategy", "Crypto",
  "CryptoKey", "CustomEvent", "DOMException", "DecompressionStream", "ErrorEvent", "Event", "EventTarget", "File", "FormData",
  "Headers", "MessageChannel", "MessageEvent", "MessagePort", "Performance", "PromiseRejectionEvent",
  "ReadableByteStreamController", "ReadableStream", "ReadableStreamBYOBReader", "ReadableStreamBYOBRequest",
  "ReadableStreamDefaultController", "ReadableStreamDefaultReader", "Request", "Response", "SubtleCrypto", "TextDecoder",
  "TextDecoderStream", "TextEncoder", "TextEncoderStream", "TransformStream", "TransformStreamDefaultController", "URL",
  "URLPattern", "URLSearchParams", "WritableStream", "WritableStreamDefaultController", "WritableStreamDefaultWriter",
];

// The methods of the interfaces that are lists of pairs, with their numbers of required arguments.
const PAIRS = { entries: 0, forEach: 1, keys: 0, values: 0, append: 2, delete: 1, get: 1, has: 1, set: 2 };
// The methods of the interfaces that have a body, with their numbers of required arguments.
const BODY = { arrayBuffer: 0, blob: 0, bytes: 0, formData: 0, json: 0, text: 0, textStream: 0 };
// The numbers of arguments that the constructor, each method and each static method require.
const REQUIRED = {
  AbortController: [0, { abort: 0 }],
  AbortSignal: [0, { throwIfAborted: 0 }, { abort: 0, any: 1, timeout: 1 }],
  Blob: [0, { arrayBuffer: 0, bytes: 0, slice: 0, stream: 0, text: 0, textStream: 0 }],
  ByteLengthQueuingStrategy: [1, {}],
  Cache: [0, { add: 1, addAll: 1, delete: 1, match: 1, put: 2 }],
  CacheStorage: [0, { open: 1 }],
  CompressionStream: [1, {}],
  CountQueuingStrategy: [1, {}],
  Crypto: [0, { getRandomValues: 1, randomUUID: 0 }],
  CryptoKey: [0, {}],
  CustomEvent: [1, { initCustomEvent: 1 }],
  DOMException: [0, {}],
  DecompressionStream: [1, {}],
  ErrorEvent: [1, {}],
  Event: [1, { composedPath: 0, initEvent: 1, preventDefault: 0, stopImmediatePropagation: 0, stopPropagation: 0 }],
  EventSource: [1, { close: 0 }],
  EventTarget: [0, { addEventListener: 2, dispatchEvent: 1, removeEventListener: 2 }],
  ExtendableEvent: [1, { waitUntil: 1 }],
  FetchEvent: [2, { passThroughOnException: 0, respondWith: 1 }],
  File: [2, {}],
  FormData: [0, { ...PAIRS, getAll: 1 }],
  Headers: [0, { ...PAIRS, getSetCookie: 0 }],
  HTMLRewriter: [0, { on: 2, onDocument: 1, transform: 1 }],
  MessageChannel: [0, {}],
  MessageEvent: [1, { initMessageEvent: 1 }],
  MessagePort: [0, { close: 0, postMessage: 1, start: 0 }],
  Performance: [0, {
    clearMarks: 0, clearMeasures: 0, getEntries: 0, getEntriesByName: 1, getEntriesByType: 1, mark: 1, measure: 1, now: 0, toJSON: 0,
  }],
  PerformanceEntry: [0, { toJSON: 0 }],
  PerformanceMark: [1, {}],
  PerformanceMeasure: [0, {}],
  PromiseRejectionEvent: [2, {}],
  QuotaExceededError: [0, {}],
  ReadableByteStreamController: [0, { close: 0, enqueue: 1, error: 0 }],
  ReadableStream: [0, { cancel: 0, getReader: 0, pipeThrough: 1, pipeTo: 1, tee: 0, values: 0 }, { from: 1 }],
  ReadableStreamBYOBReader: [1, { cancel: 0, read: 1, releaseLock: 0 }],
  ReadableStreamBYOBRequest: [0, { respond: 1, respondWithNewView: 1 }],
  ReadableStreamDefaultController: [0, { close: 0, enqueue: 0, error: 0 }],
  ReadableStreamDefaultReader: [1, { cancel: 0, read: 0, releaseLock: 0 }],
  Request: [1, { ...BODY, clone: 0 }],
  Response: [0, { ...BODY, clone: 0 }, { error: 0, json: 1, redirect: 1 }],
  SubtleCrypto: [0, {
    decrypt: 3, deriveBits: 2, deriveKey: 5, digest: 2, encrypt: 3, exportKey: 2, generateKey: 3, importKey: 5, sign: 3,
    timingSafeEqual: 2, unwrapKey: 7, verify: 4, wrapKey: 4,
  }],
  TextDecoder: [0, { decode: 0 }],
  TextDecoderStream: [0, {}],
  TextEncoder: [0, { encode: 0, encodeInto: 2 }],
  TextEncoderStream: [0, {}],
  TransformStream: [0, {}],
  TransformStreamDefaultController: [0, { enqueue: 0, error: 0, terminate: 0 }],
  URL: [1, { toJSON: 0, toString: 0 }, { canParse: 1, parse: 1 }],
  URLPattern: [0, { exec: 0, test: 0 }],
  URLSearchParams: [0, { ...PAIRS, getAll: 1, sort: 0, toString: 0 }],
  WritableStream: [0, { abort: 0, close: 0, getWriter: 0 }],
  WritableStreamDefaultController: [0, { error: 0 }],
  WritableStreamDefaultWriter: [1, { abort: 0, close: 0, releaseLock: 0, write: 0 }],
};

for (const name of INTERFACES) {
  about(name);
  const constructor = globalThis[name];
  const { prototype } = constructor;
  // The members that Web IDL specifies, each as [key, descriptor].
  const members = Object.keys(prototype).map((key) => [key, Object.getOwnPropertyDescriptor(prototype, key)]);

  check(`${name} is on the global object, writable and not enumerable, and cannot be called`, () => {
    const { writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(globalThis, name);
    equal([writable, enumerable, configurable], [true, false, true]);
    equal([constructor.name, Object.prototype.toString.call(prototype)], [name, `[object ${name}]`]);
    const flags = ({ writable, enumerable, configurable }) => [writable, enumerable, configurable];
    equal(flags(Object.getOwnPropertyDescriptor(constructor, "prototype")), [false, false, false]);
    equal(flags(Object.getOwnPropertyDescriptor(prototype, "constructor")), [true, false, true]);
    equal(flags(Object.getOwnPropertyDescriptor(prototype, Symbol.toStringTag)), [false, false, true]);
    throws("TypeError", () => constructor());
  });

  check(`${name}'s members are enumerable, except the constructor and symbols`, () => {
    for (const object of [prototype, constructor]) {
      for (const key of Reflect.ownKeys(object)) {
        const hidden = object === prototype ? ["constructor"] : ["length", "name", "prototype"];
        const expected = typeof key === "string" && !hidden.includes(key);
        equal(Object.getOwnPropertyDescriptor(object, key).enumerable, expected, String(key));
      }
    }
  });

  check(`${name}'s methods and accessors have the specified names, and cannot be constructed`, () => {
    for (const [key, { configurable, get, set, value, writable }] of members) {
      // A member that is neither an accessor nor a method is a constant.
      if (get === undefined && typeof value !== "function") {
        equal([typeof value, writable, configurable, constructor[key]], ["number", false, false, value], key);
        continue;
      }
      equal(configurable, true, key);
      if (get === undefined) equal([value.name, writable, "prototype" in value], [key, true, false], key);
      else equal([get.name, get.length, "prototype" in get], [`get ${key}`, 0, false], key);
      if (set !== undefined) equal([set.name, set.length], [`set ${key}`, 1], key);
    }
  });

  if (Object.hasOwn(REQUIRED, name)) {
    check(`${name}'s lengths are the numbers of required arguments`, () => {
      const [length, methods, statics = {}] = REQUIRED[name];
      equal(constructor.length, length, "the constructor");
      for (const key of Object.keys(methods)) equal(prototype[key].length, methods[key], key);
      for (const key of Object.keys(statics)) equal(constructor[key].length, statics[key], key);
    });
  }

  if (members.length > 0) {
    check(`${name}'s members reject receivers of other types`, async () => {
      for (const [key, { get, set, value }] of members) {
        // The listener methods of EventTarget get enough arguments, so that only the receiver is
        // wrong.
        const args = name === "EventTarget" ? ["x", null] : [];
        const call = async (f, args) => Reflect.apply(f, Object.create(prototype), args);
        if (get !== undefined) await rejects("TypeError", call(get, []), "", key);
        if (set !== undefined) await rejects("TypeError", call(set, [1]), "", key);
        if (typeof value === "function") await rejects("TypeError", call(value, args), "", key);
      }
    });
  }
}

about("Web IDL");

check("the interfaces of WinterTC's Minimum Common Web API exist", () => {
  equal(COMMON.filter((name) => !INTERFACES.includes(name)), []);
  const functions = [
    "atob", "btoa", "clearInterval", "clearTimeout", "fetch", "queueMicrotask", "reportError", "setInterval", "setTimeout",
    "structuredClone",
  ];
  for (const name of functions) equal(typeof globalThis[name], "function", name);
  for (const name of ["onerror", "onrejectionhandled", "onunhandledrejection"]) equal(globalThis[name], null, name);
  equal([self === globalThis, typeof navigator.userAgent, typeof performance.now(), typeof performance.timeOrigin],
    [true, "string", "number", "number"]);
  const wasm = [
    "Exception", "Global", "Instance", "Memory", "Module", "Table", "Tag", "compile", "compileStreaming", "instantiate",
    "instantiateStreaming", "validate",
  ];
  for (const name of wasm) equal(typeof WebAssembly[name], "function", name);
  equal(typeof WebAssembly.JSTag, "object");
});

check("functions and attributes of the global object are enumerable, and namespaces are not", () => {
  const names = {
    atob: 1, btoa: 1, clearInterval: 0, clearTimeout: 0, fetch: 1, queueMicrotask: 1, reportError: 1, setInterval: 1,
    setTimeout: 1, structuredClone: 1,
  };
  for (const [name, length] of Object.entries(names)) {
    const { configurable, enumerable, value, writable } = Object.getOwnPropertyDescriptor(globalThis, name);
    equal([value.name, value.length, writable, enumerable, configurable], [name, length, true, true, true]);
    equal("prototype" in value, false, name);
  }
  for (const name of ["caches", "crypto", "navigator", "onerror", "performance", "scheduler", "self"]) {
    equal(Object.getOwnPropertyDescriptor(globalThis, name).enumerable, true, name);
  }
  for (const name of ["WebAssembly", "console", "globalThis"]) {
    equal(Object.getOwnPropertyDescriptor(globalThis, name).enumerable, false, name);
  }
});

check("iterators have the shape that Web IDL specifies", () => {
  const iterator = new Headers({ a: "1" })[Symbol.iterator]();
  equal(Object.prototype.toString.call(iterator), "[object Headers Iterator]");
  equal(iterator[Symbol.iterator]() === iterator, true);
  equal(Headers.prototype[Symbol.iterator] === Headers.prototype.entries, true);
  equal(Object.keys(Object.getPrototypeOf(iterator)), ["next"]);
  throws("TypeError", () => Object.getPrototypeOf(iterator).next.call({}));
});

check("singletons cannot be constructed", () => {
  throws("TypeError", () => new Navigator());
  throws("TypeError", () => new Performance());
  throws("TypeError", () => new Crypto());
  equal(navigator.userAgent, "Tenon");
  equal(typeof performance.now(), "number");
});

check("random values fill exactly the given view, and UUIDs differ", () => {
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

check("internal objects are unreachable", () => {
  for (const name of ["internal", "primordials", "ops", "SharedArrayBuffer"]) equal(name in globalThis, false, name);
});

check("changes to built-in objects do not affect the interfaces", async () => {
  const { defineProperty, getOwnPropertyDescriptor } = Object;
  const hostile = () => {
    throw new Error("hostile");
  };
  // A flat list (object, member, object, member, …), because no built-in function is reliable once
  // the first one has been replaced.
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
