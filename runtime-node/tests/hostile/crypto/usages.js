// Passes an endless list of usages.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    await crypto.subtle.importKey('raw', new Uint8Array(16), 'AES-GCM', true, { *[Symbol.iterator]() { for (;;) yield 'encrypt'; } });
  },
};
