// Awaits an endless list of promises.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    await Promise.all((function* () {
      for (;;) yield 1;
    })());
  },
};
