// Recurses in WebAssembly alone, and through calls of JavaScript.
// expect: answer RangeError RangeError
// limits: cpu_ms=2000
// with: assembler.js
import { op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const names = [];
    try { instance(program([op.call, 0])).run(); } catch (error) { names.push(error.name); }
    const made = instance(program([op.call, 0], { types: [], imports: [['m', 'f', 0, 0]] }), { m: { f: () => made.run() } });
    try { made.run(); } catch (error) { names.push(error.name); }
    return new Response(names.join(' '));
  },
};
