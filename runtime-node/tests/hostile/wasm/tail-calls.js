// Loops with tail calls.
// expect: cpu_limit_exceeded
// with: assembler.js
import { op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    instance(program([op.return_call, 0])).run();
  },
};
