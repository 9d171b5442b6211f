// Parses a form of half a million fields, which must all be unescaped.
// expect: cpu_limit_exceeded
// limits: cpu_ms=50 startup_ms=10000 memory_mib=256
const body = new Uint8Array(2_000_000).fill(38);
for (let i = 0; i < body.length; i += 4) body.set([37, 52, 49], i);
const headers = { 'content-type': 'application/x-www-form-urlencoded' };
export default {
  async fetch(request, env, ctx) {
    for (;;) await new Response(body, { headers }).formData();
  },
};
