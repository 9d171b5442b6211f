// Formats huge numbers and long words.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    for (;;) {
      (10n ** 100000n).toLocaleString('de');
      new Intl.ListFormat('en').format(Array(1e4).fill('x'));
      [...new Intl.Segmenter('th', { granularity: 'word' }).segment('\u0e01'.repeat(1e5))];
      new Intl.NumberFormat('en', { maximumFractionDigits: 100 }).format('1e-99999');
    }
  },
};
