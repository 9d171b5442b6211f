// Creates responses with invalid statuses.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    for (const status of [0, 1, 99, 100, 101, 199, 600, 700, 65535, -200, NaN, Infinity, '2', null, {}, [], 1n, Symbol()]) {
      try {
        const { status: got } = new Response(null, { status });
        return new Response(`${String(status)} became ${got}`);
      } catch (error) {
        if (!(error instanceof RangeError) && !(error instanceof TypeError)) throw error;
      }
    }
    return new Response('held');
  },
};
