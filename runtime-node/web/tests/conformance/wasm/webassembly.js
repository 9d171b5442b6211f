// WebAssembly JavaScript Interface and WebAssembly Web API (W3C, version 2 and the exceptions and multiple memories of 3).
import { about, check, equal, rejects, throws } from "../check.js";
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
const wasmResponse = (bytes, init = {}) =>
  new Response(bytes, { ...init, headers: { "content-type": "application/wasm", ...init.headers } });

// ---- The namespace

about("WebAssembly");

check("the namespace has its members, with the attributes that Web IDL specifies", () => {
  const global = Object.getOwnPropertyDescriptor(globalThis, "WebAssembly");
  equal([global.enumerable, global.configurable], [false, true]);
  equal(Object.prototype.toString.call(WebAssembly), "[object WebAssembly]");
  equal(Object.getPrototypeOf(WebAssembly) === Object.prototype, true);
  const functions = { compile: 1, compileStreaming: 1, instantiate: 1, instantiateStreaming: 1, validate: 1 };
  for (const [name, length] of Object.entries(functions)) {
    const { value, writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(WebAssembly, name);
    equal([value.length, value.name, writable, enumerable, configurable], [length, name, true, true, true], name);
  }
  const classes = ["Module", "Instance", "Memory", "Table", "Global", "Tag", "Exception", "CompileError", "LinkError", "RuntimeError"];
  for (const name of classes) {
    const { value, writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(WebAssembly, name);
    equal([value.name, writable, enumerable, configurable], [name, true, false, true], name);
    equal(value.prototype.constructor === value, true, name);
  }
  equal([...Object.keys(WebAssembly)].sort(), Object.keys(functions).sort());
});

check("classes have the lengths and tags that the interface gives them", () => {
  const lengths = { Module: 1, Instance: 1, Memory: 1, Table: 1, Global: 1, Tag: 1 };
  for (const [name, length] of Object.entries(lengths)) {
    equal(WebAssembly[name].length, length, name);
    equal(WebAssembly[name].prototype[Symbol.toStringTag], `WebAssembly.${name}`);
    throws("TypeError", () => WebAssembly[name](EMPTY), "new");
    throws("TypeError", () => new WebAssembly[name]());
    const { writable, enumerable } = Object.getOwnPropertyDescriptor(WebAssembly[name], "prototype");
    equal([writable, enumerable], [false, false], name);
  }
});

check("the error classes inherit from Error", () => {
  for (const name of ["CompileError", "LinkError", "RuntimeError"]) {
    const error = new WebAssembly[name]("what");
    equal([error instanceof Error, error.name, error.message, Object.getPrototypeOf(WebAssembly[name]) === Error], [true, name, "what", true]);
  }
});

check("threads and stack switching are absent", () => {
  equal([typeof SharedArrayBuffer, typeof Atomics], ["undefined", "undefined"]);
  equal([WebAssembly.promising, WebAssembly.Suspending, WebAssembly.SuspendError], [undefined, undefined, undefined]);
  equal(["toResizableBuffer" in WebAssembly.Memory.prototype, "toFixedLengthBuffer" in WebAssembly.Memory.prototype], [false, false]);
});

// ---- validate

check("validate returns whether bytes are a module", () => {
  equal([WebAssembly.validate(EMPTY), WebAssembly.validate(ADD), WebAssembly.validate(ADD.buffer)], [true, true, true]);
  equal([WebAssembly.validate(new DataView(ADD.buffer)), WebAssembly.validate(new Uint16Array(EMPTY.buffer))], [true, true]);
  const malformed = [[], [0], [0, 0x61, 0x73, 0x6d], [0, 0x61, 0x73, 0x6d, 2, 0, 0, 0], [...EMPTY, 0], [...EMPTY, 1, 5, 0]];
  for (const bytes of malformed) equal(WebAssembly.validate(new Uint8Array(bytes)), false, `${bytes}`);
  equal(WebAssembly.validate(program([op.i32_add], { results: [i32] })), false);
});

check("validate requires bytes", () => {
  for (const value of [undefined, null, 1, "", {}, [], () => {}]) throws("TypeError", () => WebAssembly.validate(value));
  throws("TypeError", () => WebAssembly.validate());
});

check("standardized features are supported", () => {
  const valid = {
    "sign extension": program([op.local_get, 0, 0xc0], { parameters: [i32], results: [i32] }),
    "saturating conversions": program([op.local_get, 0, op.prefix, 0], { parameters: [f32], results: [i32] }),
    "several results": program([...constant(1), ...constant(2)], { results: [i32, i32] }),
    "bulk memory": program([...constant(0), ...constant(1), ...constant(2), op.prefix, 11, 0], { memories: [[0, 1]] }),
    "reference types": program([0xd0, externref], { results: [externref] }),
    "SIMD": program([0xfd, 12, ...new Array(16).fill(1), 0xfd, 21, 0], { results: [i32] }),
    "tail calls": program([op.return_call, 0]),
    "several memories": assemble({ memories: [[0, 1], [0, 1]] }),
    "addresses of 64 bits": assemble({ memories: [[4, 1]] }),
    "exceptions": assemble({ types: [[[i32], []]], tags: [0] }),
    "exceptions of before": program([op.try, op.empty, op.catch_all, op.end]),
    "try_table": program([op.block, op.empty, 0x1f, op.empty, 1, 2, 0, op.end, op.end]),
    "structures": assemble({ types: [] }),
  };
  for (const [name, bytes] of Object.entries(valid)) {
    equal(WebAssembly.validate(bytes), true, name);
    new WebAssembly.Module(bytes);
  }
});

// ---- Module

check("a module is compiled from a copy of the bytes", () => {
  const bytes = ADD.slice();
  const module = new WebAssembly.Module(bytes);
  bytes.fill(0);
  equal(module instanceof WebAssembly.Module, true);
  equal(Object.prototype.toString.call(module), "[object WebAssembly.Module]");
  equal(new WebAssembly.Instance(module).exports.add(2, 3), 5);
  equal(Object.isExtensible(module), true);
});

check("malformed or invalid bytes are a CompileError that names the position", () => {
  throws("CompileError", () => new WebAssembly.Module(new Uint8Array()), "WebAssembly.Module()");
  throws("CompileError", () => new WebAssembly.Module(new Uint8Array([1, 2, 3, 4])), "magic");
  throws("CompileError", () => new WebAssembly.Module(program([op.i32_add], { results: [i32] })), "@+");
  throws("CompileError", () => new WebAssembly.Module(program([op.br, 7])));
  throws("CompileError", () => new WebAssembly.Module(assemble({ exports: [["x", 0, 0]] })));
  const twice = { types: [[[], []]], functions: [{ type: 0, code: [] }], exports: [["x", 0, 0], ["x", 0, 0]] };
  throws("CompileError", () => new WebAssembly.Module(assemble(twice)), "duplicate");
});

check("an argument that is not bytes is a TypeError", () => {
  for (const value of [undefined, null, 1, "", {}, [], new Proxy(ADD, {})]) {
    throws("TypeError", () => new WebAssembly.Module(value), "WebAssembly.Module()");
  }
});

check("a detached buffer is an empty module", () => {
  const bytes = ADD.slice();
  bytes.buffer.transfer();
  throws("CompileError", () => new WebAssembly.Module(bytes));
});

check("a class may extend Module", () => {
  class Mine extends WebAssembly.Module {
    mine() { return WebAssembly.Module.exports(this).length; }
  }
  const mine = new Mine(ADD);
  equal([mine instanceof Mine, mine instanceof WebAssembly.Module, mine.mine()], [true, true, 1]);
  equal(new WebAssembly.Instance(mine).exports.add(1, 1), 2);
});

const MANY = assemble({
  types: [[[], []]],
  imports: [["m", "f", 0, 0], ["m", "t", 1, funcref, 0, 1], ["m", "é", 2, 0, 1], ["", "g", 3, i32, 0]],
  functions: [{ type: 0, code: [] }],
  tags: [0],
  globals: [[i64, 1, op.i64_const, 1]],
  exports: [["f", 0, 1], ["t", 1, 0], ["m", 2, 0], ["g", 3, 1], ["e", 4, 0]],
  custom: [["a", [1, 2]], ["b", []], ["a", [3]]],
});

check("Module.exports and Module.imports describe a module", () => {
  const module = new WebAssembly.Module(MANY);
  equal(WebAssembly.Module.imports(module), [
    { module: "m", name: "f", kind: "function" }, { module: "m", name: "t", kind: "table" },
    { module: "m", name: "é", kind: "memory" }, { module: "", name: "g", kind: "global" },
  ]);
  equal(WebAssembly.Module.exports(module), [
    { name: "f", kind: "function" }, { name: "t", kind: "table" }, { name: "m", kind: "memory" },
    { name: "g", kind: "global" }, { name: "e", kind: "tag" },
  ]);
  equal(WebAssembly.Module.exports(module) === WebAssembly.Module.exports(module), false);
  equal([WebAssembly.Module.exports(new WebAssembly.Module(EMPTY)), WebAssembly.Module.exports.length], [[], 1]);
  for (const name of ["exports", "imports"]) throws("TypeError", () => WebAssembly.Module[name]({}));
});

check("Module.customSections returns copies of the sections", () => {
  const module = new WebAssembly.Module(MANY);
  const [first, second] = WebAssembly.Module.customSections(module, "a");
  equal([[...new Uint8Array(first)], [...new Uint8Array(second)]], [[1, 2], [3]]);
  equal(first instanceof ArrayBuffer, true);
  equal([WebAssembly.Module.customSections(module, "b").length, WebAssembly.Module.customSections(module, "c")], [1, []]);
  throws("TypeError", () => WebAssembly.Module.customSections(module));
  throws("TypeError", () => WebAssembly.Module.customSections(module, undefined));
});

check("a module cannot be cloned, and an instance is not accepted as a module", () => {
  throws("DataCloneError", () => structuredClone(new WebAssembly.Module(ADD)));
  throws("TypeError", () => new WebAssembly.Instance(instance(ADD)));
});

check("V8's string built-ins are compiled in if the options request them", () => {
  const length = assemble({
    types: [[[externref], [i32]]],
    imports: [["wasm:js-string", "length", 0, 0]],
    functions: [{ type: 0, code: [op.local_get, 0, op.call, 0] }],
    exports: [["length", 0, 1]],
  });
  const module = new WebAssembly.Module(length, { builtins: ["js-string"] });
  equal(new WebAssembly.Instance(module).exports.length("four"), 4);
  throws("TypeError", () => new WebAssembly.Instance(new WebAssembly.Module(length)));
});

// ---- compile and instantiate

check("compile returns a promise of a module", async () => {
  const promise = WebAssembly.compile(ADD);
  equal(promise instanceof Promise, true);
  equal((await promise) instanceof WebAssembly.Module, true);
  equal((await WebAssembly.compile(ADD.buffer)) instanceof WebAssembly.Module, true);
});

check("compile rejects, and never throws", async () => {
  await rejects("TypeError", WebAssembly.compile(), "1 argument");
  await rejects("TypeError", WebAssembly.compile({}), "WebAssembly.compile()");
  await rejects("CompileError", WebAssembly.compile(new Uint8Array(4)), "WebAssembly.compile()");
});

check("instantiate returns a module and an instance for bytes, and an instance for a module", async () => {
  const both = await WebAssembly.instantiate(ADD);
  equal(Object.keys(both), ["module", "instance"]);
  equal([both.module instanceof WebAssembly.Module, both.instance instanceof WebAssembly.Instance], [true, true]);
  equal(both.instance.exports.add(-1, 1), 0);
  const one = await WebAssembly.instantiate(both.module);
  equal([one instanceof WebAssembly.Instance, one.exports.add === both.instance.exports.add], [true, false]);
});

check("instantiate copies the bytes before it returns", async () => {
  const bytes = ADD.slice();
  const promise = WebAssembly.instantiate(bytes);
  bytes.fill(0);
  equal((await promise).instance.exports.add(1, 2), 3);
});

check("instantiate reads the imports later, and rejects with their exceptions", async () => {
  const order = [];
  const bytes = assemble({ types: [[[], []]], imports: [["m", "f", 0, 0]] });
  const imports = { get m() { order.push("m"); return { get f() { order.push("f"); return () => {}; } }; } };
  const promise = WebAssembly.instantiate(bytes, imports);
  order.push("returned");
  await promise;
  equal(order, ["returned", "m", "f"]);
  await rejects("RangeError", WebAssembly.instantiate(bytes, { get m() { throw new RangeError("mine"); } }), "mine");
  await rejects("TypeError", WebAssembly.instantiate(bytes), "Imports");
  await rejects("TypeError", WebAssembly.instantiate(bytes, 1), "imports");
  await rejects("TypeError", WebAssembly.instantiate(bytes, { m: 1 }));
  await rejects("LinkError", WebAssembly.instantiate(bytes, { m: { f: 1 } }));
  await rejects("CompileError", WebAssembly.instantiate(new Uint8Array([1])));
  await rejects("RuntimeError", WebAssembly.instantiate(program([op.unreachable], { start: 0 })), "unreachable");
});

check("compileStreaming and instantiateStreaming take a response or a promise of one", async () => {
  equal((await WebAssembly.compileStreaming(wasmResponse(ADD))) instanceof WebAssembly.Module, true);
  const { instance, module } = await WebAssembly.instantiateStreaming(Promise.resolve(wasmResponse(ADD)));
  equal([instance.exports.add(4, 5), module instanceof WebAssembly.Module], [9, true]);
  const pieces = new ReadableStream({
    start(c) {
      for (const byte of ADD) c.enqueue(new Uint8Array([byte]));
      c.close();
    },
  });
  equal((await WebAssembly.instantiateStreaming(wasmResponse(pieces))).instance.exports.add(1, 1), 2);
});

check("a response must be ok, unread, complete and of type application/wasm", async () => {
  await rejects("TypeError", WebAssembly.compileStreaming(ADD), "Response");
  await rejects("TypeError", WebAssembly.compileStreaming(), "1 argument");
  await rejects("TypeError", WebAssembly.compileStreaming(new Response(ADD)), "application/wasm");
  for (const type of ["application/wasm;charset=utf-8", "application/wasm;", "application/octet-stream", "x", "application/wasm, application/wasm"]) {
    await rejects("TypeError", WebAssembly.compileStreaming(wasmResponse(ADD, { headers: { "content-type": type } })), "application/wasm");
  }
  await WebAssembly.compileStreaming(wasmResponse(ADD, { headers: { "content-type": " Application/WASM\t" } }));
  await rejects("TypeError", WebAssembly.compileStreaming(wasmResponse(ADD, { status: 404 })), "ok");
  const read = wasmResponse(ADD);
  await read.text();
  await rejects("TypeError", WebAssembly.compileStreaming(read), "used");
  await rejects("CompileError", WebAssembly.compileStreaming(wasmResponse("text")), "compileStreaming");
  await rejects("CompileError", WebAssembly.instantiateStreaming(wasmResponse(null)));
  await rejects("RangeError", WebAssembly.compileStreaming(Promise.reject(new RangeError("no"))), "no");
  await rejects("TypeError", WebAssembly.instantiateStreaming(wasmResponse(ADD), 1), "imports");
  const used = wasmResponse(ADD);
  await WebAssembly.compileStreaming(used);
  equal(used.bodyUsed, true);
});

// ---- Instance

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
  try {
    call(() => { throw error; })();
  } catch (caught) {
    equal(caught === error, true);
  }
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

// ---- Memory

check("a memory has a buffer of its pages", () => {
  const memory = new WebAssembly.Memory({ initial: 2, maximum: 3 });
  const { buffer } = memory;
  equal([buffer instanceof ArrayBuffer, buffer.byteLength, memory.buffer === buffer], [true, 131_072, true]);
  equal(Object.prototype.toString.call(memory), "[object WebAssembly.Memory]");
  equal([...new Uint8Array(buffer, 131_068)], [0, 0, 0, 0]);
  equal(new WebAssembly.Memory({ initial: 0 }).buffer.byteLength, 0);
});

check("a memory that grows detaches its buffer and keeps its bytes", () => {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 3 });
  const before = memory.buffer;
  new Uint8Array(before)[5] = 9;
  equal(memory.grow(1), 1);
  equal([before.byteLength, memory.buffer.byteLength, new Uint8Array(memory.buffer)[5]], [0, 131_072, 9]);
  const now = memory.buffer;
  equal([memory.grow(0), memory.buffer === now, now.byteLength], [2, false, 0]);
  throws("RangeError", () => memory.grow(2));
  equal(memory.grow(1), 2);
  throws("TypeError", () => memory.grow(), "");
  throws("TypeError", () => memory.grow(-1));
});

check("a memory's buffer cannot be transferred", () => {
  const { buffer } = new WebAssembly.Memory({ initial: 1 });
  throws("TypeError", () => buffer.transfer());
  throws("TypeError", () => structuredClone(buffer, { transfer: [buffer] }));
  equal(buffer.byteLength, 65_536);
});

check("memory.grow and the interface see the same memory", () => {
  const { run: grow, m } = instance(program([op.local_get, 0, op.memory_grow, 0], {
    parameters: [i32], results: [i32], memories: [[1, 1, 3]], exports: [["m", 2, 0]],
  })).exports;
  const before = m.buffer;
  equal([grow(1), before.byteLength, m.buffer.byteLength, grow(2), m.grow(1), grow(0), grow(1)], [1, 0, 131_072, -1, 2, 3, -1]);
});

check("a descriptor of a memory is checked", () => {
  for (const wrong of [undefined, null, 1, "", {}, { initial: -1 }, { initial: 2 ** 32 }, { initial: "x" }, { initial: NaN }]) {
    throws("TypeError", () => new WebAssembly.Memory(wrong), "WebAssembly.Memory()");
  }
  throws("RangeError", () => new WebAssembly.Memory({ initial: 2, maximum: 1 }));
  equal(new WebAssembly.Memory({ initial: "1" }).buffer.byteLength, 65_536);
});

check("shared memory is rejected, with the remedy", () => {
  throws("TypeError", () => new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }), "leave out 'shared'");
  throws("TypeError", () => new WebAssembly.Memory({ initial: 1, shared: true }));
  throws("CompileError", () => new WebAssembly.Module(assemble({ memories: [[3, 1, 1]] })), "shared");
  throws("CompileError", () => new WebAssembly.Module(assemble({ imports: [["m", "m", 2, 3, 1, 1]] })), "shared");
});

check("a memory cannot exceed the Worker's limit", () => {
  throws("RangeError", () => new WebAssembly.Memory({ initial: 4096 }), "memory");
  throws("RangeError", () => new WebAssembly.Memory({ initial: 65_536 }));
  const memory = new WebAssembly.Memory({ initial: 1 });
  throws("RangeError", () => memory.grow(4096));
  equal(memory.grow(1), 1);
  const grow = run([op.local_get, 0, op.memory_grow, 0], { parameters: [i32], results: [i32], memories: [[0, 1]] });
  equal([grow(4096), grow(16), grow(0)], [-1, 1, 17]);
});

check("unreachable memories are freed for others", () => {
  for (let i = 0; i < 200; i++) new Uint8Array(new WebAssembly.Memory({ initial: 256 }).buffer)[i] = 1;
});

check("a class may extend Memory", () => {
  class Mine extends WebAssembly.Memory {}
  const mine = new Mine({ initial: 1 });
  equal([mine instanceof Mine, mine.buffer.byteLength], [true, 65_536]);
  instance(assemble({ imports: [["m", "m", 2, 0, 1]] }), { m: { m: mine } });
});

check("views of a memory can be used as bodies and decoded like any other", async () => {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const view = new Uint8Array(memory.buffer, 10, 5);
  new TextEncoder().encodeInto("hello", view);
  equal(new TextDecoder().decode(view), "hello");
  const response = new Response(view);
  memory.grow(1);
  equal([await response.text(), view.byteLength], ["hello", 0]);
  crypto.getRandomValues(new Uint8Array(memory.buffer, 0, 16));
  const digest = crypto.subtle.digest("SHA-256", new Uint8Array(memory.buffer, 0, 3));
  memory.grow(1);
  equal((await digest).byteLength, 32);
});

// ---- Table

check("a table has elements that can be set and read", () => {
  const table = new WebAssembly.Table({ element: "anyfunc", initial: 2, maximum: 4 });
  const { add } = instance(ADD).exports;
  equal([table.length, table.get(0), Object.prototype.toString.call(table)], [2, null, "[object WebAssembly.Table]"]);
  table.set(1, add);
  equal(table.get(1) === add, true);
  table.set(1);
  equal(table.get(1), null);
  for (const wrong of [() => table.get(2), () => table.set(2, null)]) throws("RangeError", wrong);
  for (const wrong of [() => table.get(), () => table.get(-1), () => table.set(0, () => {}), () => table.set(0, 1)]) throws("TypeError", wrong);
});

check("a table grows up to its maximum, with an initial value", () => {
  const table = new WebAssembly.Table({ element: "externref", initial: 1, maximum: 3 }, "first");
  equal([table.get(0), table.grow(1, "second"), table.get(1), table.length], ["first", 1, "second", 2]);
  throws("RangeError", () => table.grow(2));
  equal([table.grow(1), table.get(2)], [2, undefined]);
});

check("a table's descriptor is checked", () => {
  for (const wrong of [undefined, 1, {}, { element: "anyfunc" }, { element: "any", initial: 1 }, { element: "anyfunc", initial: -1 }]) {
    throws("TypeError", () => new WebAssembly.Table(wrong));
  }
  throws("RangeError", () => new WebAssembly.Table({ element: "anyfunc", initial: 2, maximum: 1 }));
  throws("RangeError", () => new WebAssembly.Table({ element: "anyfunc", initial: 2 ** 24 }));
});

check("call_indirect calls the function in the table", () => {
  const { run: call, t } = instance(assemble({
    types: [[[i32], [i32]], [[], [i32]]],
    functions: [
      { type: 0, code: [op.local_get, 0, op.call_indirect, 1, 0] }, { type: 1, code: constant(11) }, { type: 1, code: constant(22) },
    ],
    tables: [[funcref, 0, 3]],
    exports: [["run", 0, 0], ["t", 1, 0]],
    elements: [[0, [1, 2]]],
  })).exports;
  equal([call(0), call(1)], [11, 22]);
  throws("RuntimeError", () => call(2));
  t.set(2, t.get(0));
  equal(call(2), 11);
});

// ---- Global

check("a global has a value of its type", () => {
  const global = new WebAssembly.Global({ value: "i32", mutable: true }, 2 ** 32 + 7);
  equal([global.value, global.valueOf(), Object.prototype.toString.call(global)], [7, 7, "[object WebAssembly.Global]"]);
  global.value = -1;
  equal(global.value, -1);
  equal([new WebAssembly.Global({ value: "i64" }).value, new WebAssembly.Global({ value: "f32" }, 0.1).value], [0n, Math.fround(0.1)]);
  equal([new WebAssembly.Global({ value: "externref" }).value, new WebAssembly.Global({ value: "anyfunc" }).value], [undefined, null]);
  throws("TypeError", () => { new WebAssembly.Global({ value: "i32" }, 1).value = 2; });
  throws("TypeError", () => new WebAssembly.Global({ value: "i16" }));
  throws("TypeError", () => new WebAssembly.Global({}));
  throws("TypeError", () => new WebAssembly.Global({ value: "i64" }, 1));
});

check("a global is shared with the instances that import it", () => {
  const g = new WebAssembly.Global({ value: "i32", mutable: true }, 1);
  const bytes = program([op.global_get, 0, ...constant(1), op.i32_add, op.global_set, 0], { types: [], imports: [["m", "g", 3, i32, 1]] });
  const one = instance(bytes, { m: { g } });
  instance(bytes, { m: { g } }).exports.run();
  one.exports.run();
  equal(g.value, 3);
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
