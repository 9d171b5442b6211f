// Calls async functions that never complete.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    const never = new Promise(() => {});
    const wait = async (n) => {
      await never;
      return n;
    };
    for (let i = 0;; i++) all.push(wait(i));
  },
};
