// Clones a large Map and a large Set, which V8 iterates over in one step.
// expect: cpu_limit_exceeded
// limits: cpu_ms=50 startup_ms=20000 memory_mib=256
const map = new Map(), set = new Set();
for (let i = 0; i < 40_000; i++) {
  map.set(i, i);
  set.add(`${i}`);
}
export default {
  async fetch(request, env, ctx) {
    for (;;) structuredClone([map, set]);
  },
};
