// Replaces what the language offers, and then asks for the modules: what comes may be of no use to this Worker, and is of no
// harm to others.
// expect: answer alive
// flags: nodejs_compat
// limits: cpu_ms=500
for (const prototype of [Array.prototype, String.prototype, Map.prototype, Promise.prototype, Uint8Array.prototype, Object.getPrototypeOf(Uint8Array.prototype)]) {
  for (const key of Reflect.ownKeys(prototype)) {
    if (key === 'constructor' || key === 'then') continue;
    try {
      Object.defineProperty(prototype, key, { value: function () { throw new Error('tampered'); } });
    } catch {}
  }
}
export default {
  async fetch() {
    const names = ['assert', 'async_hooks', 'buffer', 'console', 'crypto', 'diagnostics_channel', 'events', 'path', 'process', 'querystring', 'string_decoder', 'timers', 'timers/promises', 'url', 'util', 'util/types'];
    for (let i = 0; i < names.length; i++) {
      try {
        const module = await import(`node:${names[i]}`);
        module.default;
      } catch {}
    }
    return new Response('alive');
  },
};
