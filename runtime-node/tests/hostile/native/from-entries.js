// Creates an object from an endless sequence of entries.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    Object.fromEntries((function* () {
      for (let i = 0;; i++) yield [i, i];
    })());
  },
};
