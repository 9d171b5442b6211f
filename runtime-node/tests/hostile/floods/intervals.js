// As many intervals as there may be, each as short as can be.
// expect: cpu_limit_exceeded
// at once: 3
export default {
  async fetch(request, env, ctx) {
    try {
      for (;;) setInterval(() => {}, 0);
    } catch {}
    await new Promise(() => {});
  },
};
