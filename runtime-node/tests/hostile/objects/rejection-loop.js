// Loops in a rejection handler, within the turn in which the promise was rejected.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    addEventListener('unhandledrejection', () => {
      for (;;);
    });
    Promise.reject(new Error('left alone'));
    await new Promise((resolve) => setTimeout(resolve, 1));
    return new Response('went on');
  },
};
