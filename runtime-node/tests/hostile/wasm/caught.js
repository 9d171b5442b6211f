// Catches every exception in a loop and starts again.
// expect: cpu_limit_exceeded
// with: assembler.js
import { op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const bytes = program([op.loop, op.empty, op.try, op.empty, op.call, 0, op.catch_all, op.end, op.br, 0, op.end],
      { types: [], imports: [['m', 'f', 0, 0]] });
    for (;;) {
      try { instance(bytes, { m: { f() { for (;;); } } }).run(); } catch {} finally { continue; }
    }
  },
};
