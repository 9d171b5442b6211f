// Sorts an object that claims 2²⁵ elements, the most that are not refused: each step must be
// interruptible.
// expect: cpu_limit_exceeded or memory_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    Array.prototype.sort.call({ length: 2 ** 25 });
  },
};
