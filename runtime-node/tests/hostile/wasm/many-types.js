// Declares more and more types, which V8 never frees.
// expect: answer CompileError 20000
// limits: cpu_ms=20000 memory_mib=128
// with: assembler.js
import { assemble } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    let made = 0;
    const random = () => 0x7c + Math.floor(Math.random() * 4);
    try {
      for (; made < 2_000_000; made += 1000) {
        const types = Array.from({ length: 1000 }, () => [Array.from({ length: 24 }, random), []]);
        new WebAssembly.Module(assemble({ types }));
      }
    } catch (error) { return new Response(`${error.name} ${made}`); }
  },
};
