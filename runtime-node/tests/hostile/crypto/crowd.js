// Starts more operations together than a Worker may have queued: those above the limit are refused
// with an error.
// expect: answer held
// limits: cpu_ms=2000 wall_ms=10000
const { subtle } = crypto;
export default {
  async fetch(request, env, ctx) {
    const key = await subtle.importKey('raw', new Uint8Array(8), 'PBKDF2', false, ['deriveBits']);
    const all = [];
    for (let i = 0; i < 1000; i++) {
      all.push(subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-256', salt: new Uint8Array(8), iterations: 2_000 }, key, 256).then(() => 'done', (error) => error.name));
    }
    const ends = new Set(await Promise.all(all));
    return new Response(ends.has('done') && ends.has('OperationError') && ends.size === 2 ? 'held' : [...ends].join());
  },
};
