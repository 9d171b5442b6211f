// Runs bulk instructions over a whole memory.
// expect: cpu_limit_exceeded
// limits: memory_mib=128
// with: assembler.js
import { constant, op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    instance(program([op.loop, op.empty, ...constant(0), ...constant(1), ...constant(100 << 20), op.prefix, 11, 0, op.br, 0, op.end],
      { memories: [[0, 1600]] })).run();
  },
};
