// Creates tables larger than the limit, in a module and with the constructor.
// expect: answer CompileError RangeError
// with: assembler.js
import { assemble, funcref } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const names = [];
    for (const make of [() => instance(assemble({ tables: [[funcref, 0, 2_000_000]] })), () => new WebAssembly.Table({ element: 'anyfunc', initial: 2_000_000 })]) {
      try { make(); names.push('made'); } catch (error) { names.push(error.name); }
    }
    return new Response(names.join(' '));
  },
};
