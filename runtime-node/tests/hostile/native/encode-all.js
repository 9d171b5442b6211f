// Repeatedly encodes a string of 2²² characters, which is not refused.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    for (;;) encodeURIComponent('\u20ac'.repeat(2 ** 22));
  },
};
