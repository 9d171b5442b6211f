// Parses long numerals repeatedly.
// expect: cpu_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    for (;;) {
      Number('9'.repeat(2 ** 22));
      parseFloat('9'.repeat(2 ** 22));
      +'1'.repeat(2 ** 22);
    }
  },
};
