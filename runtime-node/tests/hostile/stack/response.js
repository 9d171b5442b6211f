// Creates a response whose status is read from a response, recursively.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    const again = () => new Response('', { get status() { return again(); } });
    again();
  },
};
