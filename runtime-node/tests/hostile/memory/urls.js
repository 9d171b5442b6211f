// Keeps objects of the platform's classes.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (let i = 0;; i++) {
      all.push(new URL(`https://host/${'x'.repeat(1000)}${i}`), new Headers({ a: 'b'.repeat(1000) + i }), new AbortController());
    }
  },
};
