// Creates Blobs of Blobs, each twice as large as the previous one.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    let blob = new Blob(['0123456789']);
    for (;;) blob = new Blob([blob, blob]);
  },
};
