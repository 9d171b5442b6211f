// Binds a function two hundred thousand times, calls the result, and uses it with `instanceof`.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
// patch: bound-functions
export default {
  async fetch(request, env, ctx) {
    let bound = function () {};
    for (let i = 0; i < 2e5; i++) bound = bound.bind();
    bound();
    ({}) instanceof bound;
  },
};
