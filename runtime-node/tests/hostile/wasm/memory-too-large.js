// Creates a memory larger than the limit.
// expect: memory_limit_exceeded
// with: assembler.js
import { assemble } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    instance(assemble({ memories: [[0, 65_536]] }));
  },
};
