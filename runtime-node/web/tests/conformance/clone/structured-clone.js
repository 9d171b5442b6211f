// Checks of structuredClone (HTML §2.7); those of streams are in `transferred-streams.js`.
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

const clone = structuredClone;
const refused = (value, part = "") => throws("DataCloneError", () => clone(value), part);

about("structuredClone");

check("primitives are unchanged", () => {
  for (const value of [undefined, null, true, false, 0, -0, NaN, Infinity, 1.5, "", "text", "\uD800", 2n ** 70n, -1n]) {
    equal(Object.is(clone(value), value), true, String(value));
  }
  refused(Symbol("s"));
  refused({ a: Symbol.iterator });
  throws("TypeError", () => clone());
});

check("wrapper objects are cloned with their values", () => {
  for (const value of [new Boolean(false), new Number(-0), new String("text"), Object(5n)]) {
    const made = clone(value);
    equal([made === value, typeof made, Object.getPrototypeOf(made) === Object.getPrototypeOf(value)], [false, "object", true]);
    equal(Object.is(made.valueOf(), value.valueOf()), true);
  }
  const extra = Object.assign(new String("ab"), { more: 1 });
  equal([clone(extra).more, clone(extra).length], [undefined, 2]);
  refused(Object(Symbol()));
});

check("dates and regular expressions are cloned", () => {
  equal(clone(new Date(5)).getTime(), 5);
  equal(clone(new Date(NaN)).getTime(), NaN);
  const expression = /a(?<b>.)\/\n/dgimsuy;
  expression.lastIndex = 3;
  const made = clone(expression);
  equal([made.source, made.flags, made.lastIndex], [expression.source, expression.flags, 0]);
  equal(clone(/[a--b]/v).flags, "v");
});

check("plain objects keep their own enumerable string keys, in order", () => {
  const value = Object.create({ inherited: 1 }, {
    hidden: { value: 1 }, shown: { value: 2, enumerable: true },
  });
  value[Symbol("s")] = 3;
  value.b = 4;
  value[1] = 5;
  equal(Object.entries(clone(value)), [["1", 5], ["shown", 2], ["b", 4]]);
  equal(Object.getPrototypeOf(clone(Object.create(null))) === Object.prototype, true);
  class Mine { #secret = 1; a = 1; }
  equal(clone(new Mine()).constructor === Object, true);
  const descriptor = Object.getOwnPropertyDescriptor(clone(Object.freeze({ get a() { return 1; } })), "a");
  equal([descriptor.value, descriptor.writable, descriptor.enumerable, descriptor.configurable], [1, true, true, true]);
});

check("a key called __proto__ is a key", () => {
  const value = JSON.parse('{"__proto__": {"a": 1}, "toString": 2}');
  const made = clone(value);
  equal([Object.keys(made), Object.getPrototypeOf(made) === Object.prototype], [["__proto__", "toString"], true]);
});

check("arrays keep holes, lengths and other keys", () => {
  const value = [1, , 3, ["x"]];
  value.length = 6;
  value.more = { a: 1 };
  const made = clone(value);
  equal([Array.isArray(made), made.length, 1 in made, 5 in made, made[2], made[3], made.more.a], [true, 6, false, false, 3, ["x"], 1]);
  equal(clone(Object.assign([], { "-1": 1, "01": 2 }))["-1"], 1);
  class List extends Array {}
  equal(clone(List.of(1)).constructor === Array, true);
  const sparse = [];
  sparse.length = 2 ** 32 - 1;
  sparse[2 ** 32 - 2] = "end";
  sparse[7] = "seven";
  equal([clone(sparse).length, Object.keys(clone(sparse)).join()], [2 ** 32 - 1, "7,4294967294"]);
  equal(clone(new Array(100_000)).length, 100_000);
});

check("maps and sets keep their entries and the order of the entries", () => {
  const key = { k: 1 };
  const map = new Map([[key, "v"], ["k", key], [NaN, new Set([key, [1]])]]);
  map.extra = 1;
  const made = clone(map);
  const [first, second, third] = [...made];
  equal([made.size, first[1], second[1] === first[0], third[1].has(first[0]), made.get(NaN).size, made.extra],
    [3, "v", true, true, 2, undefined]);
  equal([...clone(new Set([3, 1, 2]))], [3, 1, 2]);
});

check("changes to a map or set while it is cloned have no effect on the clone", () => {
  const map = new Map([[1, { get a() { map.set(3, 3); map.delete(2); return "a"; } }], [2, 2]]);
  equal([...clone(map)].map(([k, v]) => [k, v]), [[1, { a: "a" }], [2, 2]]);
  const set = new Set([{ get a() { set.clear(); return 1; } }, 2]);
  equal(clone(set).size, 2);
});

check("shared references and cycles are preserved", () => {
  const shared = {};
  const value = { a: shared, b: [shared] };
  value.self = value;
  const made = clone(value);
  equal([made.a === made.b[0], made.self === made, made === value, made.a === shared], [true, true, false, false]);
  const map = new Map();
  map.set(map, map);
  const [[k, v]] = clone(map);
  equal(k === v, true);
});

check("values of any depth are cloned", () => {
  let value = null;
  for (let i = 0; i < 100_000; i++) value = i % 3 === 0 ? { value } : i % 3 === 1 ? [value] : new Map([[1, value]]);
  let made = clone(value);
  let depth = 0;
  for (; made !== null; depth++) made = made instanceof Map ? made.get(1) : Array.isArray(made) ? made[0] : made.value;
  equal(depth, 100_000);
});

check("errors keep their kind, message, stack and cause", () => {
  for (const Kind of [Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError]) {
    const error = new Kind("m", { cause: { a: 1 } });
    const made = clone(error);
    equal([made.constructor === Kind, Object.prototype.toString.call(made), made.message, made.stack === error.stack, made.cause.a],
      [true, "[object Error]", "m", true, 1]);
    equal(Object.keys(made), []);
  }
  const plain = clone(new Error());
  equal([Object.hasOwn(plain, "message"), Object.hasOwn(plain, "cause")], [false, false]);
  class Mine extends TypeError { name = "Mine"; extra = 1; }
  equal([clone(new Mine("x")).constructor === Error, clone(new Mine("x")).extra, clone(new Mine("x")).name], [true, undefined, "Error"]);
  equal(clone(Object.assign(new Error("m"), { name: "RangeError" })) instanceof RangeError, true);
  equal(clone(Object.assign(new Error(), { message: 5 })).message, "5");
  equal(Object.hasOwn(clone(Object.defineProperty(new Error(), "message", { get: () => "x" })), "message"), false);
  const self = new Error("s");
  self.cause = self;
  const made = clone(self);
  equal(made.cause === made, true);
  equal(clone(new AggregateError([], "m")).constructor === Error, true);
});

check("buffers are copied", () => {
  const bytes = new Uint8Array([1, 2, 3]);
  const made = clone(bytes.buffer);
  bytes[0] = 9;
  equal([new Uint8Array(made), made.byteLength, made === bytes.buffer], [new Uint8Array([1, 2, 3]), 3, false]);
});

check("views keep their kind, and share a buffer as they did", () => {
  const buffer = new ArrayBuffer(32);
  const views = [
    new Int8Array(buffer, 1, 2), new Uint8Array(buffer), new Uint8ClampedArray(buffer, 3), new Int16Array(buffer, 2), new Uint16Array(buffer, 4, 1),
    new Int32Array(buffer, 8), new Uint32Array(buffer, 12, 1), new Float16Array(buffer, 2, 3), new Float32Array(buffer, 4), new Float64Array(buffer, 8, 2),
    new BigInt64Array(buffer, 16), new BigUint64Array(buffer, 24), new DataView(buffer, 5, 7),
  ];
  const made = clone(views);
  for (const [i, view] of made.entries()) {
    equal([view.constructor === views[i].constructor, view.byteOffset, view.byteLength, view.buffer === made[0].buffer],
      [true, views[i].byteOffset, views[i].byteLength, true]);
  }
  equal(made[0].buffer === buffer, false);
  const part = clone(new Uint8Array(buffer, 4, 4));
  equal(part.buffer.byteLength, 32);
  class Bytes extends Uint8Array {}
  equal(clone(new Bytes(2)).constructor === Uint8Array, true);
});

check("detached buffers cannot be cloned", () => {
  const bytes = new Uint8Array(2);
  const { buffer } = bytes;
  buffer.transfer();
  refused(buffer, "detached");
  refused(bytes, "detached");
});

check("functions, proxies and objects with other internal slots cannot be cloned", () => {
  refused(() => {}, "function");
  refused({ a: { b() {} } }, "function");
  refused(class {}, "function");
  refused(new Proxy({}, {}), "Proxy");
  refused(new Proxy([], {}), "Proxy");
  refused(Promise.resolve(), "promise");
  refused(new WeakMap());
  refused(new WeakSet());
  refused(new WeakRef({}));
  refused(new FinalizationRegistry(() => {}));
  refused((function* () {})());
  refused([][Symbol.iterator]().map((x) => x));
  refused(new Map().keys());
  refused(new Set().values());
  refused(new Intl.Collator(), "Collator");
  refused(Temporal.Now.instant(), "Instant");
});

check("platform objects cannot be cloned unless they are serializable", async () => {
  refused(new URL("https://host/"), "URL");
  refused(new Headers(), "Headers");
  refused(new Response(), "Response");
  refused(new AbortController().signal, "AbortSignal");
  refused(new (class extends EventTarget {})(), "EventTarget");
  refused(new Event("e"));
  refused(new MessageChannel().port1);
  refused(new FormData());
  const error = clone(new DOMException("m", "NotFoundError"));
  equal([error instanceof DOMException, error.name, error.message, error.code, error.stack.includes("structured-clone.js")],
    [true, "NotFoundError", "m", 8, true]);
  const file = clone({ file: new File(["x"], "n", { type: "a/b", lastModified: 4 }) }).file;
  equal([file.name, file.type, file.lastModified, await file.text()], ["n", "a/b", 4, "x"]);
  const blob = clone(new Blob(["y"], { type: "c/d" }));
  equal([blob.constructor === Blob, blob.type, await blob.text()], [true, "c/d", "y"]);
});

check("each getter runs once, in the order of the keys, with inner getters first", () => {
  const seen = [];
  const value = {
    get a() { seen.push("a"); return { get b() { seen.push("b"); return 1; } }; },
    list: [{ get c() { seen.push("c"); return 2; } }],
    get d() { seen.push("d"); return 3; },
  };
  equal(clone(value), { a: { b: 1 }, list: [{ c: 2 }], d: 3 });
  equal(seen, ["a", "b", "c", "d"]);
  throws("RangeError", () => clone({ get a() { throw new RangeError("mine"); } }), "mine");
});

check("keys that a getter deletes are omitted, and keys that it adds are ignored", () => {
  const value = { get a() { delete this.b; this.d = 4; return 1; }, b: 2, c: 3 };
  equal(clone(value), { a: 1, c: 3 });
  const list = [0, 1, 2];
  Object.defineProperty(list, 0, { get() { list.length = 2; return "x"; }, enumerable: true, configurable: true });
  const made = clone(list);
  equal([made.length, made[1], 2 in made], [3, 1, false]);
});

check("a buffer is transferred", () => {
  const bytes = new Uint8Array([1, 2, 3, 4]);
  const made = clone({ bytes, again: bytes.buffer, part: new DataView(bytes.buffer, 1, 2) }, { transfer: [bytes.buffer] });
  equal([bytes.length, bytes.buffer.byteLength, bytes.buffer.detached], [0, 0, true]);
  equal([made.bytes, made.bytes.buffer === made.again, made.part.buffer === made.again, made.part.byteOffset],
    [new Uint8Array([1, 2, 3, 4]), true, true, 1]);
  const buffer = new ArrayBuffer(8);
  equal(clone(buffer, { transfer: [buffer] }).byteLength, 8);
  const unseen = new ArrayBuffer(8);
  clone(null, { transfer: [unseen] });
  equal(unseen.detached, true);
});

check("transferred buffers are found anywhere in a value", () => {
  const a = new ArrayBuffer(1), b = new ArrayBuffer(2), c = new ArrayBuffer(3);
  const value = { a, list: [b, c], map: new Map([[a, b], ["k", c], [b, 1]]), set: new Set([c, 1, a]), error: new Error("m", { cause: b }) };
  const { list, map, set, error, ...rest } = clone(value, { transfer: [a, b, c] });
  equal([rest.a.byteLength, list[0].byteLength, list[1].byteLength], [1, 2, 3]);
  equal([...map.keys()][0] === rest.a && map.get(rest.a) === list[0] && map.get("k") === list[1] && map.get(list[0]) === 1, true);
  equal([...set][0] === list[1] && [...set][1] === 1 && [...set][2] === rest.a, true);
  equal([error.cause === list[0], Object.keys(error)], [true, []]);
});

check("getters run before the transfer, and a buffer that a getter detaches cannot be transferred", () => {
  const buffer = new Uint8Array([7]).buffer;
  const made = clone({ buffer, get first() { return new Uint8Array(buffer)[0]; } }, { transfer: [buffer] });
  equal([made.first, made.buffer.byteLength], [7, 1]);
  const other = new ArrayBuffer(1);
  throws("DataCloneError", () => clone({ get a() { other.transfer(); } }, { transfer: [other] }));
});

check("nothing is transferred if cloning fails", () => {
  const buffer = new ArrayBuffer(1);
  throws("DataCloneError", () => clone(() => {}, { transfer: [buffer] }));
  throws("DataCloneError", () => clone(1, { transfer: [buffer, {}] }));
  throws("DataCloneError", () => clone(1, { transfer: [buffer, buffer] }));
  throws("DataCloneError", () => clone(1, { transfer: [new Uint8Array(1)] }));
  throws("TypeError", () => clone(1, { transfer: [1] }));
  throws("TypeError", () => clone(1, { transfer: {} }));
  throws("TypeError", () => clone(1, 1));
  equal([buffer.detached, clone(1, null), clone(1, {}), clone(1, { transfer: undefined })], [false, 1, 1, 1]);
  buffer.transfer();
  throws("DataCloneError", () => clone(1, { transfer: [buffer] }));
});

check("a port is transferred", async () => {
  const { port1, port2 } = new MessageChannel();
  const { port } = clone({ port: port2 }, { transfer: [port2] });
  equal([port instanceof MessagePort, port === port2], [true, false]);
  const got = new Promise((resolve) => { port.onmessage = resolve; });
  port1.postMessage("hello");
  equal((await got).data, "hello");
  throws("DataCloneError", () => clone(port2, { transfer: [port2] }));
});

check("setters on prototypes do not intercept the properties of a clone", () => {
  const seen = [];
  Object.defineProperty(Object.prototype, "trap", { configurable: true, set() { seen.push("object"); } });
  Object.defineProperty(Array.prototype, "3", { configurable: true, set() { seen.push("array"); } });
  try {
    const value = Object.defineProperty({}, "trap", { value: 1, enumerable: true });
    equal(Object.entries(clone(value)), [["trap", 1]]);
    const list = Object.defineProperty([1, 2, 3], "3", { value: 4, enumerable: true });
    const made = clone(list);
    equal([Object.hasOwn(made, "3"), made.length], [true, 4]);
  } finally {
    delete Object.prototype.trap;
    delete Array.prototype[3];
  }
  equal(seen, []);
});

check("structuredClone is a function of the global object", () => {
  const { writable, enumerable, configurable, value } = Object.getOwnPropertyDescriptor(globalThis, "structuredClone");
  equal([writable, configurable, value.length, value.name], [true, true, 1, "structuredClone"]);
});

check("the global object cannot be cloned", () => {
  throws("DataCloneError", () => structuredClone(globalThis));
  throws("DataCloneError", () => structuredClone({ self }));
});

check("a DOMException is cloned as a DOMException", () => {
  const error = new DOMException("m", "DataError");
  const clone = structuredClone({ error }).error;
  equal([clone instanceof DOMException, clone.name, clone.message, clone.stack === error.stack], [true, "DataError", "m", true]);
});
