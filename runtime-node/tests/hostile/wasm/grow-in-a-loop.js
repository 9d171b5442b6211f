// Calls memory.grow up to the limit, and beyond.
// expect: cpu_limit_exceeded
// with: assembler.js
import { constant, op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    instance(program([op.loop, op.empty, ...constant(1), op.memory_grow, 0, op.drop, op.br, 0, op.end], { memories: [[0, 0]] })).run();
  },
};
