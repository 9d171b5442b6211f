// Computes with ever larger integers, until one operation takes longer than the limit.
// expect: cpu_limit_exceeded or worker_exception
// limits: cpu_ms=100 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    let n = 3n;
    for (;;) n = n * n + BigInt(n.toString());
  },
};
