// Checks of node:util.
import util, { callbackify, debuglog, deprecate, format, inherits, inspect, isDeepStrictEqual, promisify, stripVTControlCharacters, types } from "node:util";
import { isProxy } from "node:util/types";
import { about, check, equal, logs, rejects, throws } from "../check.js";
export { default } from "../check.js";

about("node:util");

check("format replaces its specifiers with values", () => {
  equal(format("%s %s", "a", "b", "c"), "a b c");
  equal(format("%d %i %f", "42.5", "42.5", "42.5"), "42.5 42 42.5");
  equal(format("%s %d %i", 7n, 7n, 7n), "7n 7n 7n");
  equal(format("%s %s %s %s", null, undefined, true, -0), "null undefined true -0");
  equal(format("%j", { a: [1] }), '{"a":[1]}');
  const circular = {};
  circular.self = circular;
  equal(format("%j", circular), "[Circular]");
  equal(format("%%s %s %%", "x"), "%s x %");
  equal(format("%s"), "%s");
  equal(format("100%"), "100%");
  equal(format("%x %s", "a"), "%x a");
  equal(format("%c styled", "color: red"), " styled");
  equal(format(1, "a", { b: 2 }), "1 a { b: 2 }");
  equal(format("%s", { toString: () => "own" }), "own");
  equal(format("%s", { a: { b: 1 } }), "{ a: [Object] }");
  class Named { toString() { return "named"; } }
  equal(format("%s", new Named()), "named");
  equal(format("%O", { a: { b: { c: {} } } }), "{ a: { b: { c: {} } } }");
  equal(format("%s", Symbol("x")), "Symbol(x)");
  equal(format(), "");
});

check("inspect shows values to the requested depth", () => {
  const deep = { a: { b: { c: { d: 1 } } } };
  equal(inspect(deep), "{ a: { b: { c: [Object] } } }");
  equal(inspect(deep, { depth: 0 }), "{ a: [Object] }");
  equal(inspect(deep, { depth: null }), "{ a: { b: { c: { d: 1 } } } }");
  equal(inspect(deep, false, 0), "{ a: [Object] }");
  equal([inspect("a"), inspect([1, "b"]), inspect(new Map([[1, 2]]))], ["'a'", "[ 1, 'b' ]", "Map(1) { 1 => 2 }"]);
  equal(inspect([1, 2, 3], { maxArrayLength: 1 }), "[ 1, ... 2 more items ]");
  equal(inspect({ text: "x".repeat(100), b: 1 }, { breakLength: Infinity }).includes("\n"), false);
});

check("inspect calls the custom inspection method of objects", () => {
  class Secret {
    [inspect.custom](depth, options, show) { return `<secret ${depth} ${typeof options.stylize} ${show === inspect}>`; }
  }
  equal(inspect(new Secret()), "<secret 2 function true>");
  equal(inspect({ a: new Secret() }), "{ a: <secret 1 function true> }");
  equal(inspect({ a: { [Symbol.for("nodejs.util.inspect.custom")]: () => ({ shown: 1 }) } }), "{ a: { shown: 1 } }");
  equal(inspect({ [inspect.custom]: () => "x" }, { customInspect: false }).includes("custom"), true);
  throws("RangeError", () => inspect({ [inspect.custom]() { throw new RangeError("own"); } }), "own");
  equal(inspect(Buffer.from("abc")), "<Buffer 61 62 63>");
  equal(inspect(Buffer.alloc(52)).endsWith("00 ... 2 more bytes>"), true);
});

check("promisify converts callbacks to promises", async () => {
  const adds = function (a, b, callback) { callback(null, a + b + (this?.more ?? 0)); };
  equal(await promisify(adds)(1, 2), 3);
  equal(await promisify(adds).call({ more: 4 }, 1, 2), 7);
  await rejects("RangeError", promisify((callback) => callback(new RangeError("x")))());
  const custom = () => {};
  custom[promisify.custom] = async () => "custom";
  equal(await promisify(custom)(), "custom");
  equal(promisify(custom) === custom[promisify.custom], true);
  equal(throws("TypeError", () => promisify(1)).code, "ERR_INVALID_ARG_TYPE");
});

check("callbackify converts promises to callbacks", async () => {
  const called = (fn, ...args) => new Promise((resolve) => callbackify(fn)(...args, (...results) => resolve(results)));
  equal(await called(async (a) => a * 2, 4), [null, 8]);
  equal((await called(async () => { throw new TypeError("x"); }))[0].message, "x");
  const [falsy] = await called(async () => { throw null; });
  equal([falsy.code, falsy.reason], ["ERR_FALSY_VALUE_REJECTION", null]);
  equal(callbackify(async function name(a) {}).length, 2);
});

check("inherits, deprecate, debuglog, stripVTControlCharacters and others behave as in Node.js", () => {
  function Parent() {}
  Parent.prototype.x = 1;
  function Child() {}
  inherits(Child, Parent);
  equal([new Child().x, Child.super_ === Parent], [1, true]);
  const old = deprecate((a) => a + 1, "old is old", "DEP1");
  logs("WARN", "[DEP1] DeprecationWarning: old is old", () => equal(old(1), 2));
  equal(old(2), 3);
  equal(debuglog("x").enabled, false);
  equal(stripVTControlCharacters("\u001B[31mred\u001B[0m"), "red");
  equal([util.isArray([]), util.toUSVString("\uD800"), util.TextEncoder === TextEncoder], [true, "\uFFFD", true]);
});

check("types recognize objects by their internal slots", () => {
  for (const [name, value] of Object.entries({
    isDate: new Date(), isRegExp: /x/, isMap: new Map(), isSet: new Set(), isPromise: Promise.resolve(), isProxy: new Proxy({}, {}),
    isNativeError: new TypeError(), isAsyncFunction: async () => {}, isGeneratorFunction: function* () {}, isGeneratorObject: (function* () {})(),
    isArrayBuffer: new ArrayBuffer(1), isAnyArrayBuffer: new ArrayBuffer(1), isUint8Array: Buffer.from(""), isTypedArray: new Int8Array(1),
    isArrayBufferView: new DataView(new ArrayBuffer(1)), isDataView: new DataView(new ArrayBuffer(1)), isBoxedPrimitive: Object(1n),
    isBigIntObject: Object(1n), isStringObject: new String(""), isWeakMap: new WeakMap(), isMapIterator: new Map().keys(), isSetIterator: new Set().values(),
    isArgumentsObject: (function () { return arguments; })(),
  })) {
    equal([types[name](value), types[name]({}), types[name](undefined)], [true, false, false], name);
  }
  equal([isProxy === types.isProxy, types.isDate({ __proto__: Date.prototype })], [true, false]);
});

check("isDeepStrictEqual compares recursively", () => {
  const same = (a, b) => equal([isDeepStrictEqual(a, b), isDeepStrictEqual(b, a)], [true, true], inspect(a));
  const differ = (a, b) => equal([isDeepStrictEqual(a, b), isDeepStrictEqual(b, a)], [false, false], inspect(a));
  same({ a: [1, { b: NaN }] }, { a: [1, { b: NaN }] });
  differ({ a: 1 }, { a: "1" });
  differ({ a: 1 }, { a: 1, b: undefined });
  differ([1, , 3], [1, undefined, 3]);
  differ(0, -0);
  differ([], {});
  differ(new Date(0), new Date(1));
  same(/a/gi, /a/gi);
  differ(/a/g, /a/i);
  same(new Map([[{ a: 1 }, new Set([[1]])]]), new Map([[{ a: 1 }, new Set([[1]])]]));
  differ(new Set([1, { a: 1 }]), new Set([1, { a: 2 }]));
  differ(new Map([[1, undefined]]), new Map([[2, undefined]]));
  same(new Error("x", { cause: [1] }), new Error("x", { cause: [1] }));
  differ(new Error("x"), new TypeError("x"));
  same(Buffer.from("ab"), Buffer.from("ab"));
  differ(Buffer.from("ab"), new Uint8Array([97, 98]));
  differ(new Float32Array([0]), new Float32Array([-0]));
  const view = (...bytes) => new DataView(new Uint8Array([9, ...bytes]).buffer, 1);
  same(view(1, 2), view(1, 2));
  differ(view(1, 2), view(1, 3));
  differ(view(1), view(1, 2));
  differ(Object.assign(view(1), { a: 1 }), view(1));
  same(Object(1n), Object(1n));
  differ(Object("a"), Object("b"));
  differ({ [Symbol.for("x")]: 1 }, { [Symbol.for("x")]: 2 });
  differ(Object.create(null), {});
  const one = { name: "a" };
  one.self = one;
  const other = { name: "a" };
  other.self = other;
  same(one, other);
  differ(one, { name: "a", self: { name: "a", self: null } });
  differ(new WeakMap(), new WeakMap());
});

check("a timer can be promisified", async () => {
  equal(await promisify(setTimeout)(1, "value"), "value");
  equal(await promisify(setImmediate)("soon"), "soon");
});
