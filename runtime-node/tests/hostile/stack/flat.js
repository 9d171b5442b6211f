// Joins and flattens an array that is nested two hundred thousand levels deep.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    let nested = [];
    for (let i = 0; i < 2e5; i++) nested = [nested];
    try {
      String(nested);
    } catch {
      nested.flat(Infinity);
    }
  },
};
