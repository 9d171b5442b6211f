// Extends its invocation with ten thousand promises that never settle, and with an interval.
// expect: answer kept
// limits: cpu_ms=1000 wall_ms=100
// logs: wall_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    for (let i = 0; i < 1e4; i++) ctx.waitUntil(new Promise(() => {}));
    ctx.waitUntil(new Promise(() => setInterval(() => {}, 1)));
    return new Response('kept');
  },
};
