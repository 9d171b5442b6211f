// Is stopped while a loop is in the microtask queue, where no limit would apply any more.
// expect: cpu_limit_exceeded
// requests: 3
export default {
  async fetch(request, env, ctx) {
    Promise.resolve().then(() => {
      for (;;);
    });
    for (;;);
  },
};
