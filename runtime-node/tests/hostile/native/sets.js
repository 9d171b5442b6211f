// Unites and compares large sets.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// beyond: 60
// limits: memory_mib=128 cpu_ms=60
// requests: 9
export default {
  async fetch(request, env, ctx) {
    globalThis.set ??= new Set();
    const start = set.size;
    for (let i = 0; i < 1e5; i++) set.add(start + i);
    if (set.size < 8e5) return new Response('refused');
    for (;;) set.union(new Set([-1]).union(set)).isSubsetOf(set);
  },
};
