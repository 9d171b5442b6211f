// Throws while the microtask queue contains loops.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    for (let i = 0; i < 5; i++) {
      Promise.resolve().then(() => {
        for (;;);
      });
    }
    throw new Error('gone');
  },
};
