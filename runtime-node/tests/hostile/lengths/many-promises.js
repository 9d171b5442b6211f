// Calls `Promise.all` with an endless sequence of values.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    await Promise.all((function* () {
      for (;;) yield 1;
    })());
  },
};
