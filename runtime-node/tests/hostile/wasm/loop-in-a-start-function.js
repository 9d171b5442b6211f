// Loops in the start function of an instance.
// expect: cpu_limit_exceeded
// with: assembler.js
import { op, program } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    await WebAssembly.instantiate(program([op.loop, op.empty, op.br, 0, op.end], { start: 0 }));
  },
};
