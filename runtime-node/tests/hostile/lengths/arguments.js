// Calls functions with huge numbers of arguments.
// expect: answer held
// limits: cpu_ms=5000
export default {
  async fetch(request, env, ctx) {
    for (const length of [2 ** 53 - 1, 2 ** 32 - 1, 2 ** 31, 2 ** 20]) {
      for (const call of [
        () => Reflect.apply(Math.max, null, { length }), () => Reflect.construct(Date, { length }),
        () => Math.max.apply(null, { length }),
      ]) {
        try {
          call();
          return new Response(`${call} with ${length} was called`);
        } catch (error) {
          if (!(error instanceof RangeError)) throw error;
        }
      }
    }
    return new Response('held');
  },
};
