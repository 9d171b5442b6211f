// What is stopped has left a loop in the queue of microtasks, where nothing would stop it any more.
// expect: cpu_limit_exceeded
// requests: 3
export default {
  async fetch(request, env, ctx) {
    Promise.resolve().then(() => {
      for (;;);
    });
    for (;;);
  },
};
