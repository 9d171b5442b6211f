// Loops in WebAssembly.
// expect: cpu_limit_exceeded
// with: assembler.js
import { op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    instance(program([op.loop, op.empty, op.br, 0, op.end])).run();
  },
};
