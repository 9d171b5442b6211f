// Compiles a module of many megabytes of functions.
// expect: answer 14
// limits: cpu_ms=20000 memory_mib=256
// beyond: 300
// with: assembler.js
import { assemble, op } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
const code = new Uint8Array(10_000).fill(op.nop);
export default {
  async fetch(request, env, ctx) {
    const functions = Array.from({ length: 1500 }, () => ({ type: 0, code }));
    const bytes = assemble({ types: [[[], []]], functions, exports: [['run', 0, 0]] });
    instance(bytes).run();
    return new Response(`${bytes.length >> 20}`);
  },
};
