// Repeatedly instantiates a module with a hundred thousand data segments.
// expect: cpu_limit_exceeded
// limits: memory_mib=128
// beyond: 200
// with: assembler.js
import { assemble } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    const data = Array.from({ length: 100_000 }, () => [0, [1]]);
    const module = new WebAssembly.Module(assemble({ memories: [[0, 1]], data }));
    for (;;) new WebAssembly.Instance(module);
  },
};
