// Clones several MiB of small objects, which exceeds the CPU limit. No step may take long.
// expect: cpu_limit_exceeded
// limits: cpu_ms=50 startup_ms=20000 memory_mib=256
const large = Array.from({ length: 40_000 }, (_, i) => ({ i, text: `text ${i}`, list: [i] }));
export default {
  async fetch(request, env, ctx) {
    for (;;) structuredClone(large);
  },
};
