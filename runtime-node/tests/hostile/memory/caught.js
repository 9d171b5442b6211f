// Catches every exception while it fills the heap.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (;;) {
      try {
        for (;;) all.push(new Array(1000).fill(all));
      } catch {
        continue;
      } finally {
        Promise.resolve().then(() => all.push(...all));
      }
    }
  },
};
