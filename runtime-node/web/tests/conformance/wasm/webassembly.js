// Checks of the namespace and Module (WebAssembly JavaScript Interface), and of the streaming
// functions (WebAssembly Web API). The specification is W3C's version 2, with features of version
// 3 such as exceptions, several memories, 64-bit addresses and tail calls.
import { about, check, equal, rejects, throws } from "../check.js";
import { assemble, constant, externref, f32, funcref, i32, i64, op, program } from "../assembler.js";
export { default } from "../check.js";

const EMPTY = assemble({});
const ADD = assemble({
  types: [[[i32, i32], [i32]]],
  functions: [{ type: 0, code: [op.local_get, 0, op.local_get, 1, op.i32_add] }],
  exports: [["add", 0, 0]],
});
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports);
const wasmResponse = (bytes, init = {}) =>
  new Response(bytes, { ...init, headers: { "content-type": "application/wasm", ...init.headers } });

const MANY = assemble({
  types: [[[], []]],
  imports: [["m", "f", 0, 0], ["m", "t", 1, funcref, 0, 1], ["m", "é", 2, 0, 1], ["", "g", 3, i32, 0]],
  functions: [{ type: 0, code: [] }],
  tags: [0],
  globals: [[i64, 1, op.i64_const, 1]],
  exports: [["f", 0, 1], ["t", 1, 0], ["m", 2, 0], ["g", 3, 1], ["e", 4, 0]],
  custom: [["a", [1, 2]], ["b", []], ["a", [3]]],
});

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
    "64-bit addresses": assemble({ memories: [[4, 1]] }),
    "exceptions": assemble({ types: [[[i32], []]], tags: [0] }),
    "legacy exceptions": program([op.try, op.empty, op.catch_all, op.end]),
    "try_table": program([op.block, op.empty, 0x1f, op.empty, 1, 2, 0, op.end, op.end]),
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
