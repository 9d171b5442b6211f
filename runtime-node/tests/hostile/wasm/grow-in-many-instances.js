// Grows and uses the memories of many instances of one module.
// expect: answer held
// limits: cpu_ms=5000 memory_mib=32
// with: assembler.js
import { i32, op, program } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    const module = new WebAssembly.Module(program([op.local_get, 0, op.memory_grow, 0], {
      parameters: [i32], results: [i32], memories: [[0, 1]], exports: [['m', 2, 0]],
    }));
    const all = Array.from({ length: 60 }, () => new WebAssembly.Instance(module).exports);
    let pages = all.length;
    for (const exports of all) {
      for (let n = 0; n < 30 && exports.run(1) >= 0; n++) pages++;
      new Uint8Array(exports.m.buffer).fill(1);
    }
    return new Response(pages * 64 <= 32 * 1024 ? 'held' : `${pages} pages`);
  },
};
