// Keeps every key that it can create.
// expect: memory_limit_exceeded or worker_exception or cpu_limit_exceeded
// limits: cpu_ms=5000 memory_mib=16 wall_ms=20000
const { subtle } = crypto;
const kept = [];
export default {
  async fetch(request, env, ctx) {
    for (;;) kept.push(await subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign']));
  },
};
