// Encodes and decodes long strings for URLs.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    for (const use of [
      () => encodeURIComponent('\u20ac'.repeat(2 ** 25)),
      () => encodeURI('\u20ac'.repeat(2 ** 24)),
      () => escape('\u20ac'.repeat(2 ** 24)),
      () => unescape('x'.repeat(2 ** 26 - 24)),
      () => decodeURIComponent('x'.repeat(2 ** 26 - 24)),
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
