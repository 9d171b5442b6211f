// Clones a buffer, and copies it into Blobs, until there is no more memory.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [new ArrayBuffer(1 << 20)];
    for (;;) all.push(structuredClone(all[0]), new Blob([all[0]]));
  },
};
