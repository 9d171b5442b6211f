// Spreads array holes into an array, a call and a set.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    for (const use of [(x) => new Set(x), (x) => Math.max(...x), (x) => [...x]]) use(new Array(2 ** 32 - 1));
  },
};
