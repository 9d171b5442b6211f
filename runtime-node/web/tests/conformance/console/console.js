// Checks of the console (Console Standard): its levels, and the text that it logs for values.
import { about, check, equal, logs, throws } from "../check.js";
export { default } from "../check.js";

// Checks the text that console.log produces for a value.
const shows = (expected, value) => logs("INFO", expected, () => console.log(value));

about("console");

check("each method logs at its own level", () => {
  logs("DEBUG", "d", () => console.debug("d"));
  logs("INFO", "l", () => console.log("l"));
  logs("INFO", "i", () => console.info("i"));
  logs("WARN", "w", () => console.warn("w"));
  logs("ERROR", "e", () => console.error("e"));
  logs("INFO", "", () => console.log());
});

check("values are joined by spaces, and strings are unchanged", () => {
  logs("INFO", "a 1 true null undefined [ 'nested' ]", () => console.log("a", 1, true, null, undefined, ["nested"]));
});

check("format specifiers are replaced", () => {
  logs("INFO", "s 42 1.5 NaN { a: 1 } 100% %d", () => console.log("%s %d %f %d %o 100%% %d", "s", 42, 1.5, {}, { a: 1 }));
  logs("INFO", "3 -4 styled rest", () => console.log("%i %d %cstyled", 3.9, -4.9, "color: red", "rest"));
  logs("INFO", "%s", () => console.log("%s"));
  logs("INFO", "5n Symbol(x)", () => console.log("%d %s", 5n, Symbol("x")));
});

check("primitives are shown in the syntax of JavaScript", () => {
  shows("-0", -0);
  shows("12n", 12n);
  shows("Symbol(a)", Symbol("a"));
  shows(`[ 'a', "it's", '"', '\\n' ]`, ["a", "it's", '"', "\n"]);
});

check("objects are shown with their class", () => {
  class Point {
    #secret = 1;
    x = 1;
  }
  shows("Point { x: 1 }", new Point());
  shows("{}", {});
  shows("[Object: null prototype] { a: 1 }", Object.assign(Object.create(null), { a: 1 }));
  shows("{ 'a-b': 1, [Symbol(s)]: 2 }", { "a-b": 1, [Symbol("s")]: 2 });
  shows("Object [Tag] {}", { __proto__: { [Symbol.toStringTag]: "Tag" } });
});

check("collections are shown with their size", () => {
  shows("Map(1) { 'a' => { b: 1 } }", new Map([["a", { b: 1 }]]));
  shows("Set(2) { 1, 2 }", new Set([1, 2]));
  shows("Uint8Array(2) [ 1, 2 ]", new Uint8Array([1, 2]));
  shows("ArrayBuffer { byteLength: 3 }", new ArrayBuffer(3));
  shows("[ 1, <2 empty items>, 4, x: 5 ]", Object.assign([1, , , 4], { x: 5 }));
  shows("WeakMap { <items unknown> }", new WeakMap());
  class Stack extends Array {}
  shows("Stack(1) [ 1 ]", Stack.of(1));
});

check("functions and classes are shown by name", () => {
  shows("[Function: f]", function f() {});
  shows("[Function (anonymous)]", (() => () => 1)());
  shows("[AsyncFunction: g]", async function g() {});
  class A {}
  class B extends A {}
  shows("[class B extends A]", B);
  shows("[Function: f] { x: 1 }", Object.assign(function f() {}, { x: 1 }));
});

check("dates, regular expressions, promises and wrapper objects are shown with their content", () => {
  shows("1970-01-01T00:00:00.000Z", new Date(0));
  shows("Invalid Date", new Date(NaN));
  shows("/a\\/b/giu", /a\/b/giu);
  shows("Promise { 1 }", Promise.resolve(1));
  shows("Promise { <pending> }", new Promise(() => {}));
  shows("[Number: 1]", Object(1));
  shows("[String: 'ab']", Object("ab"));
});

check("cycles are numbered", () => {
  const a = { name: "a" };
  a.self = a;
  a.list = [a];
  shows("<ref *1> { name: 'a', self: [Circular *1], list: [ [Circular *1] ] }", a);
});

check("depth, length and size are bounded", () => {
  shows("{ a: { a: { a: { a: { a: [Object] } } } } }", { a: { a: { a: { a: { a: { a: 1 } } } } } });
  const many = Array.from({ length: 102 }, () => 0);
  shows(`[\n  ${many.slice(0, 100).join(",\n  ")},\n  ... 2 more items\n]`, many);
  shows(`{\n  s: '${"x".repeat(10_000)}'... 1 more character\n}`, { s: "x".repeat(10_001) });
  shows("[ <10001 empty items>, ... 4294957294 more items ]", new Array(2 ** 32 - 1));
});

check("long objects are split into lines", () => {
  const text = "y".repeat(30);
  shows(`{\n  a: '${text}',\n  b: '${text}',\n  c: { d: 1 }\n}`, { a: text, b: text, c: { d: 1 } });
});

check("no code of the value runs", () => {
  const ran = [];
  const trap = (name) => () => {
    ran.push(name);
    return undefined;
  };
  const value = {
    get getter() {
      ran.push("getter");
      return 1;
    },
    set setter(x) {},
    toString: trap("toString"),
    toJSON: trap("toJSON"),
    [Symbol.toPrimitive]: trap("toPrimitive"),
  };
  logs("INFO", [
    "{", "  getter: [Getter],", "  setter: [Setter],", "  toString: [Function (anonymous)],",
    "  toJSON: [Function (anonymous)],", "  [Symbol(Symbol.toPrimitive)]: [Function (anonymous)]", "}",
  ].join("\n"), () => console.log(value));
  const handler = new Proxy({}, { get: (_, name) => trap(`trap ${String(name)}`) });
  shows("[Proxy]", new Proxy({ a: 1 }, handler));
  shows("[Proxy (function)]", new Proxy(() => {}, handler));
  shows("{}", Object.create(new Proxy({}, handler)));
  logs("INFO", "NaN", () => console.log("%d", { valueOf: trap("valueOf") }));
  equal(ran, []);
});

check("errors are shown with name, message, cause and properties", () => {
  const bare = new Error("boom");
  bare.stack = "";
  shows("[Error: boom]", bare);
  const typed = new TypeError("t", { cause: "c" });
  typed.stack = "";
  typed.code = 7;
  shows("[TypeError: t] { code: 7, [cause]: 'c' }", typed);
  const traced = new Error("first");
  traced.stack = "Error: first\n    at somewhere";
  traced.message = "second";
  shows("Error: second\n    at somewhere", traced);
  equal(typeof new Error("x").stack, "string");
});

check("platform objects are shown with their state", () => {
  shows("Headers { a: '1', 'b-c': '2' }", new Headers({ "b-c": "2", a: "1" }));
  shows("URLSearchParams { a: '1' }", new URLSearchParams("a=1"));
  shows("Request { method: 'GET', url: 'https://h/', headers: Headers {}, bodyUsed: false }", new Request("https://h"));
  shows("AbortSignal { aborted: true, reason: 1 }", AbortSignal.abort(1));
});

check("tables are drawn", () => {
  logs("INFO", [
    "┌─────────┬───┬─────┬────────┐",
    "│ (index) │ a │ b   │ Values │",
    "├─────────┼───┼─────┼────────┤",
    "│ 0       │ 1 │ 'x' │        │",
    "│ 1       │ 2 │     │        │",
    "│ 2       │   │     │ 3      │",
    "└─────────┴───┴─────┴────────┘",
  ].join("\n"), () => console.table([{ a: 1, b: "x" }, { a: 2 }, 3]));
  logs("INFO", "plain", () => console.table("plain"));
});

check("groups indent the lines in them", () => {
  logs("INFO", "outer", () => console.group("outer"));
  logs("INFO", "  a\n  b", () => console.log("a\nb"));
  console.groupEnd();
  logs("INFO", "after", () => console.log("after"));
  console.groupEnd();
});

check("count logs the number of calls", () => {
  logs("INFO", "default: 1", () => console.count());
  logs("INFO", "default: 2", () => console.count());
  logs("INFO", "x: 1", () => console.count("x"));
  console.countReset();
  logs("INFO", "default: 1", () => console.count());
  logs("WARN", "Count for 'none' does not exist", () => console.countReset("none"));
});

check("timers log the elapsed time", () => {
  console.time();
  logs("WARN", "Timer 'default' already exists", () => console.time());
  logs("INFO", "default: 0.000ms more", () => console.timeLog("default", "more"));
  logs("INFO", "default: 0.000ms", () => console.timeEnd());
  logs("WARN", "Timer 'default' does not exist", () => console.timeEnd());
});

check("assertions log only if they fail", () => {
  console.assert(true, "silent");
  logs("ERROR", "Assertion failed", () => console.assert(false));
  logs("ERROR", "Assertion failed: x 1", () => console.assert(0, "x", 1));
  logs("ERROR", "Assertion failed: { a: 1 }", () => console.assert(false, { a: 1 }));
});

check("a reported error is logged", () => {
  const error = new Error("reported");
  error.stack = "";
  logs("ERROR", "Uncaught [Error: reported]", () => reportError(error));
});

check("labels are converted to strings", () => {
  logs("INFO", "own: 1", () => console.count({ toString: () => "own" }));
  throws("TypeError", () => console.count(Symbol("x")));
  throws("Error", () => console.time({ toString() { throw new Error("mine"); } }), "mine");
});

check("dir inspects to the requested depth", () => {
  const deep = { a: { b: { c: { d: { e: { f: {} } } } } } };
  logs("INFO", "{ a: { b: { c: { d: { e: [Object] } } } } }", () => console.dir(deep));
  logs("INFO", "{ a: [Object] }", () => console.dir(deep, { depth: 0 }));
  logs("INFO", "{ a: { b: [Object] } }", () => console.dir(deep, { depth: 1 }));
  logs("INFO", "{ a: { b: { c: { d: { e: { f: {} } } } } } }", () => console.dir(deep, { depth: null }));
});

check("console is a namespace whose functions need no receiver and no arguments", () => {
  const prototype = Object.getPrototypeOf(console);
  equal([Object.prototype.toString.call(console), Reflect.ownKeys(prototype), Object.getPrototypeOf(prototype) === Object.prototype],
    ["[object console]", [], true]);
  const names = [
    "assert", "clear", "count", "countReset", "debug", "dir", "dirxml", "error", "group", "groupCollapsed", "groupEnd", "info",
    "log", "table", "time", "timeEnd", "timeLog", "trace", "warn",
  ];
  equal(Object.keys(console).sort(), names);
  for (const name of names) {
    const { configurable, enumerable, value, writable } = Object.getOwnPropertyDescriptor(console, name);
    equal([value.name, value.length, writable, enumerable, configurable, "prototype" in value], [name, 0, true, true, true, false]);
  }
  const { log } = console;
  logs("INFO", "free", () => log("free"));
});
