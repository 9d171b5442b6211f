// Compiles and drops many different small modules.
// expect: cpu_limit_exceeded
// limits: memory_mib=32
// with: assembler.js
import { constant, op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    for (let i = 0; ; i++) instance(program([...constant(i), op.drop])).run();
  },
};
