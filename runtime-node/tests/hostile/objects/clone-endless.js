// Clones what has another part each time that it is asked.
// expect: cpu_limit_exceeded or memory_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const endless = () => ({ get next() { return endless(); } });
    structuredClone(endless());
  },
};
