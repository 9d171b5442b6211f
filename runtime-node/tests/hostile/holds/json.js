// Parses bodies of four million arrays as JSON.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
// beyond: 60
// requests: 2
export default {
  async fetch(request, env, ctx) {
    try {
      await new Response('[' + '[],'.repeat(4e6) + '1]').json();
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
      await new Request('https://host/', { method: 'POST', body: new TextEncoder().encode('[' + '[],'.repeat(4e6) + '1]') }).json();
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
