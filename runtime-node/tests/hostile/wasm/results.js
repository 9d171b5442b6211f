// Calls functions whose many results remain on the stack.
// expect: answer CompileError or answer RuntimeError or cpu_limit_exceeded or memory_limit_exceeded
// limits: cpu_ms=1000 memory_mib=128
// beyond: 300
// with: assembler.js
import { assemble, constant, i32, op } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const results = new Array(64).fill(i32);
    const many = results.flatMap(() => constant(0));
    const code = [];
    for (let i = 0; i < 20_000; i++) code.push(op.call, 1);
    code.push(op.unreachable);
    try {
      const made = assemble({
        types: [[[], []], [[], results]], functions: [{ type: 0, code }, { type: 1, code: many }], exports: [['run', 0, 0]],
      });
      instance(made).run();
      return new Response('ran');
    } catch (error) { return new Response(error.name); }
  },
};
