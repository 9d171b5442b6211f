// Creates an array from an object that claims 2²⁵ elements: each step must be interruptible.
// expect: cpu_limit_exceeded or memory_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    Array.from({ length: 2 ** 25 });
  },
};
