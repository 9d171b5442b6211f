// Compiles a pattern of thirty thousand named groups, and matches it.
// expect: cpu_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const groups = Array.from({ length: 30000 }, (_, i) => `(?<name${i}>a)?`).join('');
    for (let i = 0;; i++) new RegExp(`${groups}${i}`).exec('aaaa');
  },
};
