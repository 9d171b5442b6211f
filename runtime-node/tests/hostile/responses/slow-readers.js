// Clones and reads the same large response in many concurrent requests.
// expect: memory_limit_exceeded or answer done
// at once: 10
// limits: cpu_ms=2000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    globalThis.large ??= new Response(new Uint8Array(4 << 20));
    for (let i = 0; i < 4; i++) await globalThis.large.clone().text();
    return new Response('done');
  },
};
