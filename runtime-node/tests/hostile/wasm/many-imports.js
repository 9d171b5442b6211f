// Calls four thousand imports, each with a different type.
// expect: cpu_limit_exceeded or answer done
// limits: cpu_ms=1000 memory_mib=128
// beyond: 300
// with: assembler.js
import { constant, i32, i64, op, program, unsigned } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const types = [], imports = [], code = [];
    for (let i = 0; i < 4000; i++) {
      const parameters = Array.from({ length: 13 }, (_, bit) => ((i >> bit) & 1 ? i32 : i64));
      types.push([parameters, []]);
      imports.push(['m', 'f', 0, i + 1]);
      for (const type of parameters) code.push(...(type === i32 ? constant(0) : [op.i64_const, 0]));
      code.push(op.call, ...unsigned(i));
    }
    const m = { f: () => 0n };
    instance(program(code, { types, imports }), { m }).run();
    return new Response('done');
  },
};
