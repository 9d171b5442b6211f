// Compiles functions with many branches over many locals.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=128
// beyond: 300
// with: assembler.js
import { assemble, i32, op } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const code = new Array(400).fill([op.block, op.empty, op.local_get, 0, op.br_if, 0, op.end]).flat();
    const functions = Array.from({ length: 100 }, () => ({ type: 0, locals: [[10_000, i32]], code }));
    const exports = functions.map((_, i) => [`f${i}`, 0, i]);
    for (const f of Object.values(instance(assemble({ types: [[[], []]], functions, exports })))) f();
    for (;;);
  },
};
