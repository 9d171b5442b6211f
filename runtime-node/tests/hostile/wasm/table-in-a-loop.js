// Calls table.grow, table.size and table.fill with large sizes, in a loop.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=64
// with: assembler.js
import { constant, funcref, op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    instance(program([
      op.loop, op.empty,
      0xd0, funcref, ...constant(100_000), op.prefix, 15, 0, op.drop,
      ...constant(0), 0xd0, funcref, op.prefix, 16, 0, op.prefix, 17, 0,
      op.br, 0, op.end,
    ], { tables: [[funcref, 0, 1]] })).run();
  },
};
