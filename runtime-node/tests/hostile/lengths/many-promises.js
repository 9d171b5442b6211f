// Waits for all of what never comes to an end.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    await Promise.all((function* () {
      for (;;) yield 1;
    })());
  },
};
