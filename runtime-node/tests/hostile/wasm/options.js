// Passes options whose getters create modules and change the bytes of the module.
// expect: answer 5
// limits: cpu_ms=2000
// with: assembler.js
import { constant, i32, program } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    const bytes = program(constant(5), { results: [i32] });
    let depth = 0;
    const options = { get builtins() { if (depth++ < 20) new WebAssembly.Module(bytes, options); bytes.fill(0); return []; } };
    const module = new WebAssembly.Module(bytes, options);
    return new Response(`${new WebAssembly.Instance(module).exports.run()}`);
  },
};
