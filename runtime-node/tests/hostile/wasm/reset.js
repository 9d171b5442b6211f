// Creates and fills a memory in each invocation's own realm.
// expect: answer 100
// state: Reset
// requests: 4
// at once: 8
// limits: cpu_ms=2000 memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const memory = new WebAssembly.Memory({ initial: 1 });
    while (memory.buffer.byteLength < 100 << 16) memory.grow(1);
    new Uint8Array(memory.buffer).fill(1);
    return new Response(`${memory.buffer.byteLength >> 16}`);
  },
};
