// Starts slowly, and ends its isolate with each request, so that it starts again.
// expect: cpu_limit_exceeded
// limits: startup_ms=400
// requests: 3
let n = 0;
while (n < 2e7) n++;
export default {
  async fetch(request, env, ctx) {
    for (;;);
  },
};
