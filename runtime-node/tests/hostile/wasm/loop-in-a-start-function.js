// A loop in the function that runs when an instance is made.
// expect: cpu_limit_exceeded
// with: assembler.js
import { op, program } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    await WebAssembly.instantiate(program([op.loop, op.empty, op.br, 0, op.end], { start: 0 }));
  },
};
