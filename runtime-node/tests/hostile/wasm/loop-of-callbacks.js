// Loops in WebAssembly and calls JavaScript at every step.
// expect: cpu_limit_exceeded
// with: assembler.js
import { op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const bytes = program([op.loop, op.empty, op.call, 0, op.br, 0, op.end], { types: [], imports: [['m', 'f', 0, 0]] });
    instance(bytes, { m: { f() {} } }).run();
  },
};
