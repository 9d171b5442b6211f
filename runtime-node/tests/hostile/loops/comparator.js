// Sorts with an inconsistent comparator once, and with a native function forever.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    let n = 0;
    Array.from({ length: 1e5 }, (_, i) => -i).sort(() => (++n % 2 ? 1 : -1));
    for (;;) Array.from({ length: 1e5 }, (_, i) => -i).sort(Math.max);
  },
};
