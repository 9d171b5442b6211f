// Sends a body that is larger than the heap.
// expect: memory_limit_exceeded
// limits: memory_mib=24
export default {
  async fetch(request, env, ctx) {
    return new Response('x'.repeat(2 ** 25));
  },
};
