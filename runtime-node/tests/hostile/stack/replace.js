// Calls replace within a replacement function.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    'x'.replace(/x/, function again() {
      return 'x'.replace(/x/, again);
    });
  },
};
