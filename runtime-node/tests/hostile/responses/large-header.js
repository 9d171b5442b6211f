// Sends a header of a mebibyte.
// expect: worker_exception
// logs: headers are larger
export default {
  async fetch(request, env, ctx) {
    return new Response('', { headers: { a: 'x'.repeat(1 << 20) } });
  },
};
