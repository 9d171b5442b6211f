// Formats a long array of numbers by a locale's rules.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    new Array(2 ** 21).fill(1.5).toLocaleString('de');
  },
};
