// Creates headers whose value is converted from headers, recursively.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    const again = { toString: () => new Headers({ a: again }) };
    new Headers({ a: again });
  },
};
