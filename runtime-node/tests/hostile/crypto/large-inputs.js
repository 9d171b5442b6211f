// Passes many large inputs, each of which is copied. The copies must be charged.
// expect: answer held or memory_limit_exceeded or worker_exception
// limits: cpu_ms=2000 memory_mib=32
const { subtle } = crypto;
export default {
  async fetch(request, env, ctx) {
    const key = await subtle.importKey('raw', new Uint8Array(16), 'AES-GCM', false, ['encrypt']);
    const data = new Uint8Array(4 << 20);
    const all = [];
    for (let i = 0; i < 50; i++) {
      all.push(subtle.digest('SHA-256', data), subtle.encrypt({ name: 'AES-GCM', iv: new Uint8Array(12), additionalData: data }, key, data));
    }
    const ends = await Promise.allSettled(all);
    const names = new Set(ends.filter(({ status }) => status === 'rejected').map(({ reason }) => reason.name));
    names.delete('RangeError');
    return new Response(names.size === 0 ? 'held' : [...names].join());
  },
};
