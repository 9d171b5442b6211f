// Keeps memories without pages.
// expect: memory_limit_exceeded
// limits: cpu_ms=5000 memory_mib=32
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (;;) all.push(new WebAssembly.Memory({ initial: 0 }));
  },
};
