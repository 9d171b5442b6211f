// Logs far more than its budget.
// expect: answer said
// limits: cpu_ms=5000
// lines: 70
// logs: has logged too much
export default {
  async fetch(request, env, ctx) {
    for (let i = 0; i < 20000; i++) console.log('x'.repeat(1000));
    return new Response('said');
  },
};
