// Awaits the four billion holes of an array.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    await Promise.allSettled(new Array(2 ** 32 - 1).values());
  },
};
