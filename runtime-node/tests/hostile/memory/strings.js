// Creates, reads and keeps long strings.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (let i = 0;; i++) {
      all.push('x'.repeat(1e5) + i);
      all.at(-1).charCodeAt(0);
    }
  },
};
