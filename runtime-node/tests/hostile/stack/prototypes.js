// Reads a property through a long chain of prototypes. Its getter reads the same property again.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    let object = { get x() { return this.x; } };
    for (let i = 0; i < 1e4; i++) object = Object.create(object);
    object.x;
  },
};
