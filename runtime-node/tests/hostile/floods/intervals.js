// Starts as many intervals as possible, each as short as possible.
// expect: cpu_limit_exceeded
// at once: 3
// limits: wall_ms=20000
export default {
  async fetch(request, env, ctx) {
    try {
      for (;;) setInterval(() => {}, 0);
    } catch {}
    await new Promise(() => {});
  },
};
