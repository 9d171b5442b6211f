// Parses JSON repeatedly, and keeps the results.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    const text = `[${'{"a":[1,2,3]},'.repeat(1000)}1]`;
    for (;;) all.push(JSON.parse(text));
  },
};
