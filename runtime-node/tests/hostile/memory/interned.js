// Adds properties, whose names V8 internalizes, to an object.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = {};
    for (let i = 0;; i++) all[`name ${i}`.repeat(10)] = i;
  },
};
