// Loops in WebAssembly at the top level of a module.
// expect: start cpu_limit_exceeded
// limits: startup_ms=50
// with: assembler.js
import { op, program } from './assembler.js';
await WebAssembly.instantiate(program([op.loop, op.empty, op.br, 0, op.end], { start: 0 }));
export default { fetch: () => new Response('never') };
