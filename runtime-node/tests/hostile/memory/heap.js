// Fills the heap with objects.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (;;) all.push({ all: [...all.slice(-3)] });
  },
};
