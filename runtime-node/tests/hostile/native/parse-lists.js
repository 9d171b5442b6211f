// Parses five million arrays.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    JSON.parse('[' + '[],'.repeat(5e6) + '1]');
  },
};
