// Searches an array of 2²⁵ holes from its end: the search must be interruptible.
// expect: cpu_limit_exceeded or memory_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    new Array(2 ** 25).lastIndexOf(1);
  },
};
