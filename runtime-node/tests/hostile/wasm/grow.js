// Grows a memory to the Worker's limit and uses the whole memory.
// expect: answer 384 -1 24
// limits: cpu_ms=2000 memory_mib=26
// with: assembler.js
import { i32, op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    // Other memory uses the rest of the budget of 26 MiB.
    const { run } = instance(program([op.local_get, 0, op.memory_grow, 0], { parameters: [i32], results: [i32], memories: [[0, 0]] }));
    let pages = 0;
    while (pages < 384 && run(1) >= 0) pages++;
    const most = run(1024);
    return new Response(`${pages} ${most} ${Math.floor(pages * 64 / 1024)}`);
  },
};
