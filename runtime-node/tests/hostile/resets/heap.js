// Fills the heap from many realms, each of which remains while it has work in flight.
// expect: answer kept or memory_limit_exceeded or cpu_limit_exceeded or start memory_limit_exceeded
// state: Reset
// requests: 40
// limits: memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const many = Array.from({ length: 2e5 }, (_, i) => i);
    ctx.waitUntil(new Promise((resolve) => setTimeout(() => resolve(many.length), 20)));
    return new Response('kept');
  },
};
