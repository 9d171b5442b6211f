// Creates many instances with as many exports as possible.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=64
// beyond: 300
// with: assembler.js
import { assemble } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    const exports = Array.from({ length: 50_000 }, (_, i) => [`${i}`, 0, 0]);
    const module = new WebAssembly.Module(assemble({ types: [[[], []]], functions: [{ type: 0, code: [] }], exports }));
    const all = [];
    for (;;) all.push(new WebAssembly.Instance(module).exports);
  },
};
