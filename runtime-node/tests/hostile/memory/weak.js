// Creates weak references, and entries of a weak map, whose targets remain alive.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    const map = new WeakMap();
    for (;;) {
      const object = {};
      all.push(new WeakRef(object), object);
      map.set(object, map);
    }
  },
};
