// Recurses with frames of almost four hundred kilobytes.
// expect: answer RangeError
// limits: cpu_ms=5000
// with: assembler.js
import { i64, op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const locals = [[49_000, i64]];
    try {
      instance(program([op.call, 0], { locals })).run();
    } catch (error) { return new Response(error.name); }
  },
};
