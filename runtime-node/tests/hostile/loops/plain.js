// Loops forever.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    for (;;);
  },
};
