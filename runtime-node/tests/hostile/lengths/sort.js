// Iterates over the largest possible number of elements: each step must be interruptible.
// expect: cpu_limit_exceeded or memory_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    Array.prototype.sort.call({ length: 2 ** 25 });
  },
};
