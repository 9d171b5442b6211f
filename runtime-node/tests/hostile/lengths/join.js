// As many places as are gone through at all: every step must be one at which it can be stopped.
// expect: cpu_limit_exceeded or memory_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    Array.prototype.join.call({ length: 2 ** 25 }, '');
  },
};
