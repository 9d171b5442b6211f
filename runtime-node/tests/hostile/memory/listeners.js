// Adds listeners for more and more event types.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    for (let i = 0;; i++) addEventListener(`event ${i}`, () => i);
  },
};
