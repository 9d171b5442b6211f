// Keeps labels of console.count and console.time.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    for (let i = 0;; i++) {
      console.count('x'.repeat(1e5) + i);
      console.time('y'.repeat(1e5) + i);
    }
  },
};
