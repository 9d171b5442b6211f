// Keeps closures, and symbols in the global registry.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (let i = 0;; i++) all.push(Symbol.for(`${i}`), () => all);
  },
};
