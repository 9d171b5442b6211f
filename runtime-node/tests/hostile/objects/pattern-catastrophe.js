// Matches a pattern whose expression backtracks catastrophically.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const pattern = new URLPattern({ pathname: '/((?:a+)+)b' });
    pattern.test({ pathname: `/${'a'.repeat(60)}c` });
    return new Response('matched');
  },
};
