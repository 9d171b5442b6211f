// Checks of Memory, Table and Global (WebAssembly JavaScript Interface).
import { about, check, equal, throws } from "../check.js";
import { assemble, constant, funcref, i32, op, program } from "../assembler.js";
export { default } from "../check.js";

const ADD = assemble({
  types: [[[i32, i32], [i32]]],
  functions: [{ type: 0, code: [op.local_get, 0, op.local_get, 1, op.i32_add] }],
  exports: [["add", 0, 0]],
});
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports);
const run = (code, options, imports) => instance(program(code, options), imports).exports.run;

// ---- Memory

about("WebAssembly");

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

check("views of a memory can be used as bodies and decoded like any other view", async () => {
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
