// Compiles and matches a pattern of thirty thousand named groups, which V8 may refuse as too large.
// expect: cpu_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const groups = Array.from({ length: 30000 }, (_, i) => `(?<name${i}>a)?`).join('');
    for (let i = 0;; i++) {
      try {
        new RegExp(`${groups}${i}`).exec('aaaa');
      } catch {}
    }
  },
};
