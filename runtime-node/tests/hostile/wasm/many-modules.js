// Keeps many different small modules.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=32
// with: assembler.js
import { constant, op, program } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (let i = 0; ; i++) all.push(new WebAssembly.Module(program([...constant(i), op.drop])));
  },
};
