// Answers and continues to loop.
// expect: answer early
// logs: cpu_limit_exceeded
// requests: 2
export default {
  async fetch(request, env, ctx) {
    ctx.waitUntil(new Promise((resolve) => setTimeout(() => {
      for (;;);
    }, 1)));
    return new Response('early');
  },
};
