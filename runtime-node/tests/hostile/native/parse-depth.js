// Parses a million nested arrays.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    for (const use of [
      () => JSON.parse('['.repeat(1e6) + ']'.repeat(1e6)),
    ]) {
      try {
        use();
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
    return new Response('refused');
  },
};
