// Creates and drops memories of sixteen pages.
// expect: cpu_limit_exceeded
// limits: memory_mib=32
export default {
  async fetch(request, env, ctx) {
    for (;;) new Uint8Array(new WebAssembly.Memory({ initial: 16 }).buffer)[0] = 1;
  },
};
