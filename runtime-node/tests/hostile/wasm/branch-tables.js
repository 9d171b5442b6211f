// Compiles branches with as many targets as possible, each with values.
// expect: answer CompileError
// limits: cpu_ms=5000 memory_mib=64
// with: assembler.js
import { constant, i32, op, program, unsigned } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const targets = new Array(60_000).fill(0);
    const table = [...constant(0), op.br_table, ...unsigned(targets.length), ...targets, 0];
    const code = [];
    for (let i = 0; i < 15; i++) code.push(op.block, 1, ...new Array(64).fill(constant(0)).flat(), ...table, op.end, ...new Array(64).fill(op.drop));
    try { instance(program(code, { types: [[[], new Array(64).fill(i32)]] })).run(); } catch (error) { return new Response(error.name); }
  },
};
