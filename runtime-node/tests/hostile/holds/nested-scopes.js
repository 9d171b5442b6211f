// Evaluates eight hundred nested scopes: blocks, and functions with a direct eval.
// expect: cpu_limit_exceeded
// limits: memory_mib=128
// requests: 2
export default {
  async fetch(request, env, ctx) {
    for (let i = 0;; i++) (0, eval)(`${'{ let a; '.repeat(800)}(() => a + ${i})();${'}'.repeat(800)}`);
  },
};
// revision: functions
export default {
  async fetch(request, env, ctx) {
    for (let i = 0;; i++) {
      try {
        (0, eval)(`${'(function () { eval(""); '.repeat(800)}${i}${' })()'.repeat(800)}`);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
  },
};
