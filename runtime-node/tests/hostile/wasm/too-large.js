// Compiles a module larger than the limit.
// expect: answer CompileError false
// limits: cpu_ms=2000 memory_mib=128
// with: assembler.js
import { assemble } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    const bytes = new Uint8Array((16 << 20) + 1);
    bytes.set(assemble({}));
    try { new WebAssembly.Module(bytes); } catch (error) { return new Response(`${error.name} ${WebAssembly.validate(bytes)}`); }
  },
};
