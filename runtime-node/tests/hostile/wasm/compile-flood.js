// Compiles a thousand modules concurrently.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// with: assembler.js
import { constant, op, program } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    await Promise.all(Array.from({ length: 1000 }, (_, i) => WebAssembly.compile(program([...constant(i), ...new Array(20_000).fill(op.nop), op.drop]))));
  },
};
