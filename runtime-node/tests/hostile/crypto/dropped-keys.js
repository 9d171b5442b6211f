// Creates and drops far more keys than memory can hold at once.
// expect: answer held
// limits: cpu_ms=10000 memory_mib=16 wall_ms=30000
const { subtle } = crypto;
export default {
  async fetch(request, env, ctx) {
    for (let i = 0; i < 40_000; i++) await subtle.importKey('raw', new Uint8Array(1024), 'HKDF', false, ['deriveBits']);
    return new Response('held');
  },
};
