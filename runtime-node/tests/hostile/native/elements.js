// Calls methods that iterate over long arrays, most of them with native callbacks.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=128
// requests: 4
export default {
  async fetch(request, env, ctx) {
    const elements = new Array(2 ** 22).fill(1);
    for (;;) {
      elements.find(Array);
      elements.filter(Boolean);
      elements.every(Boolean);
      elements.findLastIndex(Number.isNaN);
      elements.lastIndexOf(3);
    }
  },
};
