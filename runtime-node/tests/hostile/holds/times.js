// Parses dates with a million brackets or more.
// expect: answer refused
// limits: memory_mib=128
// beyond: 30
// requests: 2
export default {
  async fetch(request, env, ctx) {
    try {
      Date.parse('('.repeat(1e6));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 2
export default {
  async fetch(request, env, ctx) {
    try {
      Date.parse('1 ' + '()'.repeat(2 ** 24));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
