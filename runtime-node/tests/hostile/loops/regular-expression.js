// Backtracks without end: forwards, backwards and case-insensitively.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const text = 'a'.repeat(50000);
    for (const expression of [/^(a|a)*?$/i, /(?<=(a*)*)b/, /(a*)*b/u, /(?:a+)+[^a]/v]) expression.test(text);
    for (;;) /(a*)*b/.test(text);
  },
};
