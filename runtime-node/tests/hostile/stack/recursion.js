// Recurses without end.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    const again = () => again();
    again();
  },
};
