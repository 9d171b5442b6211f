// Exceeds its limit while the microtask queue contains a loop, which must not run without a limit.
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
