// Delegates to an iterator that never ends, in a generator.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const endless = {
      [Symbol.iterator]() {
        return this;
      },
      next: () => ({ done: false, value: 1 }),
      return: () => {
        for (;;);
      },
    };
    for (const x of (function* () {
      yield* endless;
    })()) {
      if (x === 2) break;
    }
  },
};
