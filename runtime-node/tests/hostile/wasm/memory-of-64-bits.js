// Tries to create a memory with 64-bit addresses, and to grow one, far beyond the limit.
// expect: answer held
// limits: cpu_ms=5000
// with: assembler.js
import { i64, op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const grow = (limits) => instance(program([op.local_get, 0, op.memory_grow, 0], { parameters: [i64], results: [i64], memories: [limits] })).run;
    const small = grow([4, 1]);
    if (small(1n << 40n) !== -1n || small(65_535n) !== -1n || small(16n) !== 1n) return new Response('grew');
    try { new WebAssembly.Memory({ address: 'i64', initial: 1n << 32n }); return new Response('made'); } catch {}
    return new Response('held');
  },
};
