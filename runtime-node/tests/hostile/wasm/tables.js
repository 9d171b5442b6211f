// Keeps tables that grow.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=32
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (;;) {
      const table = new WebAssembly.Table({ element: 'externref', initial: 1000 });
      all.push(table);
      try { for (let i = 0; i < 20; i++) table.grow(1000); } catch {}
    }
  },
};
