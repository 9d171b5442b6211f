// Keeps many instances, each with a memory.
// expect: memory_limit_exceeded
// limits: cpu_ms=5000 memory_mib=32
// with: assembler.js
import { assemble } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    const module = new WebAssembly.Module(assemble({ memories: [[0, 1]] }));
    const all = [];
    for (;;) all.push(new WebAssembly.Instance(module));
  },
};
