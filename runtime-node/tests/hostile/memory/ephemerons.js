// Keeps a chain of ephemerons and makes the collector follow it repeatedly.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=128 cpu_ms=400
// requests: 3
const map = new WeakMap();
const first = {};
export default {
  async fetch(request, env, ctx) {
    let last = first;
    for (let i = 0; i < 300_000; i++) {
      const next = {};
      map.set(last, next);
      last = next;
    }
    for (;;) new Array(1000).fill({});
  },
};
