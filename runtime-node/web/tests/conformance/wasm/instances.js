// Checks of instances, exported functions and exceptions (WebAssembly JavaScript Interface).
import { about, check, equal, throws } from "../check.js";
import { assemble, constant, externref, f32, f64, funcref, i32, i64, op, program } from "../assembler.js";
export { default } from "../check.js";

const EMPTY = assemble({});
const ADD = assemble({
  types: [[[i32, i32], [i32]]],
  functions: [{ type: 0, code: [op.local_get, 0, op.local_get, 1, op.i32_add] }],
  exports: [["add", 0, 0]],
});
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports);
const run = (code, options, imports) => instance(program(code, options), imports).exports.run;
const MANY = assemble({
  types: [[[], []]],
  imports: [["m", "f", 0, 0], ["m", "t", 1, funcref, 0, 1], ["m", "é", 2, 0, 1], ["", "g", 3, i32, 0]],
  functions: [{ type: 0, code: [] }],
  tags: [0],
  globals: [[i64, 1, op.i64_const, 1]],
  exports: [["f", 0, 1], ["t", 1, 0], ["m", 2, 0], ["g", 3, 1], ["e", 4, 0]],
  custom: [["a", [1, 2]], ["b", []], ["a", [3]]],
});

// ---- Instance

about("WebAssembly");

check("an instance's exports are a frozen object without a prototype", () => {
  const { exports } = instance(MANY, {
    m: { f() {}, t: new WebAssembly.Table({ element: "anyfunc", initial: 1 }), é: new WebAssembly.Memory({ initial: 1 }) }, "": { g: 1 },
  });
  equal([Object.getPrototypeOf(exports), Object.isFrozen(exports), Object.keys(exports)], [null, true, ["f", "t", "m", "g", "e"]]);
  equal(exports.e instanceof WebAssembly.Tag, true);
  equal(Object.prototype.toString.call(instance(EMPTY)), "[object WebAssembly.Instance]");
  throws("TypeError", () => Object.getOwnPropertyDescriptor(WebAssembly.Instance.prototype, "exports").get.call({}));
});

check("imports must exist and have the declared types", () => {
  const wants = (...what) => assemble({ types: [[[], []]], imports: [["m", "x", ...what]] });
  for (const [bytes, wrong] of [
    [wants(0, 0), {}], [wants(0, 0), 1], [wants(1, funcref, 0, 1), {}], [wants(2, 0, 1), {}], [wants(3, i32, 0), "1"],
    [wants(3, i64, 0), 1], [wants(2, 0, 2), new WebAssembly.Memory({ initial: 1 })],
    [wants(2, 1, 1, 2), new WebAssembly.Memory({ initial: 1 })],
    [wants(1, funcref, 0, 1), new WebAssembly.Table({ element: "externref", initial: 1 })],
    [wants(3, i32, 1), 1], [wants(0, 0), instance(ADD).exports.add],
  ]) {
    throws("LinkError", () => instance(bytes, { m: { x: wrong } }), "WebAssembly.Instance()");
  }
  throws("TypeError", () => instance(wants(0, 0), null));
  throws("TypeError", () => instance(wants(0, 0), {}));
});

check("numbers are converted on the way in and out", () => {
  const same = (type) => run([op.local_get, 0], { parameters: [type], results: [type] });
  equal([same(i32)(2 ** 32 + 5), same(i32)("7"), same(i32)(-1.9), same(i32)()], [5, 7, -1, 0]);
  equal([same(i64)(5n), same(i64)(2n ** 63n), same(i64)("12")], [5n, -(2n ** 63n), 12n]);
  throws("TypeError", () => same(i64)(1));
  equal([same(f32)(0.1), same(f64)(0.1), same(f64)()], [Math.fround(0.1), 0.1, NaN]);
  const object = {};
  equal([same(externref)(object) === object, same(externref)(), same(externref)(null)], [true, undefined, null]);
  equal(run([...constant(1), ...constant(2)], { results: [i32, i32] })(), [1, 2]);
  throws("TypeError", () => same(i32)(1n));
  throws("RangeError", () => same(i32)({ valueOf() { throw new RangeError("mine"); } }), "mine");
});

check("an exported function has a name, a length and an identity", () => {
  const { add } = instance(ADD).exports;
  equal([typeof add, add.name, add.length, add instanceof Function], ["function", "0", 2, true]);
  throws("TypeError", () => new add(1, 2));
  const table = new WebAssembly.Table({ element: "anyfunc", initial: 1 });
  table.set(0, add);
  equal(table.get(0) === add, true);
});

check("an imported function gets no receiver, and its exception is propagated", () => {
  let receiver;
  const call = (f) => run([op.call, 0], { types: [], imports: [["m", "f", 0, 0]] }, { m: { f } });
  call(function () { "use strict"; receiver = this; })();
  equal(receiver, undefined);
  const error = new Error("mine");
  equal(throws("Error", call(() => { throw error; })) === error, true);
});

check("a start function runs when the instance is created, and its trap is an error", () => {
  let ran = 0;
  const start = (code) => assemble({ types: [[[], []]], imports: [["m", "f", 0, 0]], functions: [{ type: 0, code }], start: 1 });
  instance(start([op.call, 0]), { m: { f: () => ran++ } });
  equal(ran, 1);
  throws("RuntimeError", () => instance(start([op.unreachable]), { m: { f() {} } }), "unreachable");
});

check("traps are RuntimeErrors that name the cause", () => {
  const divide = run([op.local_get, 0, op.local_get, 1, op.i32_div_s], { parameters: [i32, i32], results: [i32] });
  throws("RuntimeError", () => divide(1, 0), "divide by zero");
  throws("RuntimeError", () => divide(-(2 ** 31), -1));
  const load = run([op.local_get, 0, op.i32_load, 2, 0], { parameters: [i32], results: [i32], memories: [[0, 1]] });
  equal(load(65_532), 0);
  for (const address of [65_533, 65_536, -1, 2 ** 31]) throws("RuntimeError", () => load(address), "out of bounds");
  const indirect = run([op.local_get, 0, op.call_indirect, 1, 0], { parameters: [i32], types: [[[], []]], tables: [[funcref, 0, 1]] });
  throws("RuntimeError", () => indirect(0));
  throws("RuntimeError", () => indirect(1));
  throws("RuntimeError", () => run([op.unreachable])(), "unreachable");
  throws("RangeError", () => run([op.call, 0])(), "call stack");
});

check("a segment that does not fit is a RuntimeError, and earlier segments are applied", () => {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const bytes = assemble({ imports: [["m", "m", 2, 0, 1]], data: [[0, [7]], [65_536, [8]]] });
  throws("RuntimeError", () => instance(bytes, { m: { m: memory } }));
  equal(new Uint8Array(memory.buffer)[0], 7);
});

// ---- Exceptions

check("an exception has a tag and values", () => {
  const tag = new WebAssembly.Tag({ parameters: ["i32", "externref"] });
  const exception = new WebAssembly.Exception(tag, [1, "x"]);
  equal([exception.is(tag), exception.is(new WebAssembly.Tag({ parameters: [] }))], [true, false]);
  equal([exception.getArg(tag, 0), exception.getArg(tag, 1)], [1, "x"]);
  throws("RangeError", () => exception.getArg(tag, 2));
  throws("TypeError", () => exception.getArg(new WebAssembly.Tag({ parameters: [] }), 0));
  throws("TypeError", () => new WebAssembly.Exception(tag, [1]));
  throws("TypeError", () => new WebAssembly.Tag({ parameters: ["x"] }));
  equal([exception.stack, typeof new WebAssembly.Exception(tag, [1, 2], { traceStack: true }).stack], [undefined, "string"]);
});

check("exceptions pass between JavaScript and WebAssembly", () => {
  const tag = new WebAssembly.Tag({ parameters: ["i32"] });
  const throwing = run([...constant(42), op.throw, 0], { types: [[[i32], []]], imports: [["m", "t", 4, 0, 1]] }, { m: { t: tag } });
  try {
    throwing();
    equal("returned", "thrown");
  } catch (error) {
    equal([error instanceof WebAssembly.Exception, error.is(tag), error.getArg(tag, 0)], [true, true, 42]);
  }
  const catching = run([op.try, op.empty, op.call, 0, op.catch_all, op.end], { types: [], imports: [["m", "f", 0, 0]] },
    { m: { f() { throw new Error("any"); } } });
  catching();
});

check("JSTag is the tag of JavaScript exceptions", () => {
  equal(WebAssembly.JSTag instanceof WebAssembly.Tag, true);
  throws("TypeError", () => new WebAssembly.Exception(WebAssembly.JSTag, [1]));
});

// ---- Stacks and the console

check("stack traces contain WebAssembly frames", () => {
  let stack;
  run([op.call, 0], { types: [], imports: [["m", "f", 0, 0]] }, { m: { f() { ({ stack } = new Error()); } } })();
  equal(/wasm/.test(stack), true, stack);
});

check("the error for a module that exceeds a bound names the bound", () => {
  const parameters = new Array(256).fill(i32);
  throws("CompileError", () => new WebAssembly.Module(assemble({ types: [[parameters, []]] })), "255 parameters");
  throws("CompileError", () => new WebAssembly.Module(assemble({ tables: [[funcref, 0, 2 ** 20 + 1]] })), "elements");
  throws("CompileError", () => new WebAssembly.Module(new Uint8Array(2 ** 24 + 1)), "at most 16777216");
});
