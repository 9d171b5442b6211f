// Endlessly creates performance marks, and reads all entries, which must be sorted, after each.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    for (let i = 0; ; i++) {
      performance.mark(`m${i}`, { detail: [i], startTime: -i & 1023 });
      performance.getEntries();
    }
  },
};
