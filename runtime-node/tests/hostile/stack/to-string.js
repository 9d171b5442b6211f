// Parses a URL whose conversion to a string parses a URL.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    const again = { toString: () => new URL(again).href };
    new URL(again);
  },
};
