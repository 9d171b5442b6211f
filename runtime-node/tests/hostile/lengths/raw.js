// Calls `String.raw` with an object that claims 2²⁵ strings: each step must be interruptible.
// expect: cpu_limit_exceeded or memory_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    String.raw({ raw: { length: 2 ** 25 } });
  },
};
