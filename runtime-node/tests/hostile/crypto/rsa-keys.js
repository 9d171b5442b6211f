// Generates a flood of the largest keys.
// expect: cpu_limit_exceeded
// limits: wall_ms=20000
// requests: 2
const { subtle } = crypto;
const algorithm = { name: 'RSA-PSS', modulusLength: 4096, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256' };
export default {
  async fetch(request, env, ctx) {
    await Promise.all(Array.from({ length: 100 }, () => subtle.generateKey(algorithm, true, ['sign'])));
    return new Response('all there');
  },
};
