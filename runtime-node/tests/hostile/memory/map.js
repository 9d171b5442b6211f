// Fills a Map and a Set.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const map = new Map();
    const set = new Set();
    for (let i = 0;; i++) set.add(map.set(i, i) && i);
  },
};
