// Requests a flood of password hashes, each of which alone would be accepted.
// expect: cpu_limit_exceeded
// limits: wall_ms=20000
// requests: 3
const { subtle } = crypto;
export default {
  async fetch(request, env, ctx) {
    const key = await subtle.importKey('raw', new Uint8Array(8), 'PBKDF2', false, ['deriveBits']);
    const all = [];
    for (let i = 0; i < 200; i++) {
      all.push(subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-256', salt: new Uint8Array(8), iterations: 50_000 }, key, 256).catch(() => {}));
    }
    await Promise.all(all);
    return new Response('all done');
  },
};
