// Loops in each invocation's own realm.
// expect: cpu_limit_exceeded
// state: Reset
// requests: 3
// at once: 2
export default {
  async fetch(request, env, ctx) {
    for (;;);
  },
};
