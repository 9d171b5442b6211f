// Keeps objects of Intl, whose memory is outside of V8's heap.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: cpu_ms=2000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (;;) all.push(new Intl.DateTimeFormat('th', { dateStyle: 'full' }), new Intl.NumberFormat('ar'), new Intl.Collator('zh'));
  },
};
