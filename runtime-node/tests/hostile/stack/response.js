// A response whose status is a response's.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    const again = () => new Response('', { get status() { return again(); } });
    again();
  },
};
