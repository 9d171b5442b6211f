// Tries to create shared memory in every possible way.
// expect: answer held
// with: assembler.js
import { assemble, constant, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const ways = [
      () => new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }),
      () => new WebAssembly.Memory({ initial: 1, maximum: 1, shared: 'yes' }),
      () => new (class extends WebAssembly.Memory {})({ initial: 1, maximum: 1, shared: 1 }),
      () => Reflect.construct(WebAssembly.Memory, [{ initial: 1, maximum: 1, shared: true }], Object),
      () => { let asked = 0; return new WebAssembly.Memory({ initial: 1, maximum: 1, get shared() { return asked++ > 0; } }); },
      () => new WebAssembly.Memory({ initial: 1, maximum: 1, get initial() { this.shared = true; return 1; } }),
      () => new WebAssembly.Memory.prototype.constructor({ initial: 1, maximum: 1, shared: true }),
      () => new WebAssembly.Memory(new Proxy({}, { get: (_, key) => (key === 'shared' ? true : key === 'address' ? undefined : 1) })),
      () => instance(assemble({ memories: [[3, 1, 1]], exports: [['m', 2, 0]] })).m,
      () => instance(assemble({ memories: [[7, 1, 1]], exports: [['m', 2, 0]] })).m,
      () => instance(assemble({ memories: [[2, 1]], exports: [['m', 2, 0]] })).m,
    ];
    const found = new Set();
    for (const way of ways) {
      let memory;
      try { memory = way(); } catch { continue; }
      if (!(memory.buffer instanceof ArrayBuffer)) return new Response(`${way}`);
      found.add(memory);
    }
    if (WebAssembly.validate(program([...constant(0), 0xfe, 0x00, 2, 0], { memories: [[0, 1]] }))) return new Response('threads');
    return new Response(typeof SharedArrayBuffer === 'undefined' && typeof Atomics === 'undefined' ? 'held' : 'there');
  },
};
