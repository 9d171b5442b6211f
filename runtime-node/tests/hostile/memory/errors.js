// Keeps the long stacks of errors.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    Error.stackTraceLimit = 1e9;
    const all = [];
    const deep = (n) => (n ? deep(n - 1) : new Error('x'));
    for (;;) all.push(deep(5000).stack);
  },
};
