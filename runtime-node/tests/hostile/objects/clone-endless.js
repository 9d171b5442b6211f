// Clones an object that has another property each time it is read.
// expect: cpu_limit_exceeded or memory_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const endless = () => ({ get next() { return endless(); } });
    structuredClone(endless());
  },
};
