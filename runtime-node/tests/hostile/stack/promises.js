// Resolves ten thousand promises, each with the previous one.
// expect: answer 1
// limits: cpu_ms=1000
export default {
  async fetch(request, env, ctx) {
    let promise = Promise.resolve(1);
    for (let i = 0; i < 1e4; i++) {
      const inner = promise;
      promise = new Promise((resolve) => resolve(inner));
    }
    return new Response(await promise);
  },
};
