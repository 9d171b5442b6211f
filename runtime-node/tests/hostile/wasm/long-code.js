// Compiles, in each request, a function whose machine code is a thousand times as long as its
// bytecode.
// expect: answer ran or cpu_limit_exceeded or memory_limit_exceeded
// requests: 12
// limits: cpu_ms=2000 memory_mib=64
// beyond: 300
// with: assembler.js
import { assemble, constant, i32, op } from './assembler.js';
// Constants in a thousand locals, all of which the machine code of each branch writes.
const sets = Array.from({ length: 1000 }, (_, i) => [...constant(1), op.local_set, (i & 127) | 128, i >> 7]).flat();
const code = [op.block, op.empty, ...sets, ...new Array(15_000).fill([op.local_get, 0, op.br_if, 0]).flat(), op.end];
const functions = Array.from({ length: 12 }, () => ({ type: 0, locals: [[1000, i32]], code }));
const exports = functions.map((_, i) => [`f${i}`, 0, i]);
const made = Object.values(new WebAssembly.Instance(new WebAssembly.Module(assemble({ types: [[[], []]], functions, exports }))).exports);
let next = 0;
export default {
  async fetch(request, env, ctx) {
    made[next++ % 12]();
    return new Response('ran');
  },
};
