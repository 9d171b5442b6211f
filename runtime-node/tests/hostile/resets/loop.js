// Starts each time in a realm of its own, and loops there.
// expect: cpu_limit_exceeded
// state: Reset
// requests: 3
// at once: 2
export default {
  async fetch(request, env, ctx) {
    for (;;);
  },
};
