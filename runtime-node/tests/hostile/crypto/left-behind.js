// Answers while operations are in flight, which must end with the invocation.
// expect: answer held
// requests: 20
// limits: cpu_ms=2000
const { subtle } = crypto;
const algorithm = { name: 'RSA-PSS', modulusLength: 4096, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256' };
let late;
export default {
  async fetch(request, env, ctx) {
    late = subtle.generateKey(algorithm, true, ['sign']).then(() => console.log('it has come'));
    for (let i = 0; i < 10; i++) subtle.digest('SHA-512', new Uint8Array(1 << 18));
    await new Promise((resolve) => setTimeout(resolve, 1));
    return new Response('held');
  },
};
