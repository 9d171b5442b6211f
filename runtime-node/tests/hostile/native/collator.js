// Compares long strings repeatedly by a locale's rules.
// expect: cpu_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const text = 'x'.repeat(2 ** 22);
    for (;;) new Intl.Collator('de').compare(text, `${text}1`);
  },
};
