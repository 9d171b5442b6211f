// Replaces built-in functions, and then imports the modules of Node.js: these may fail for this
// Worker, but must not harm others.
// expect: answer alive
// flags: nodejs_compat
// limits: cpu_ms=500
const { defineProperty, ownKeys } = Reflect;
const prototypes = [Array.prototype, String.prototype, Map.prototype, Promise.prototype, Uint8Array.prototype, Object.getPrototypeOf(Uint8Array.prototype)];
for (let i = 0; i < prototypes.length; i++) {
  const keys = ownKeys(prototypes[i]);
  for (let j = 0; j < keys.length; j++) {
    if (keys[j] === 'constructor' || keys[j] === 'then' || keys[j] === 'length') continue;
    defineProperty(prototypes[i], keys[j], { value: function () { throw new Error('tampered'); } });
  }
}
export default {
  async fetch() {
    const names = ['assert', 'async_hooks', 'buffer', 'console', 'crypto', 'diagnostics_channel', 'dns', 'events', 'net', 'path', 'process', 'querystring', 'string_decoder', 'timers', 'timers/promises', 'tls', 'url', 'util', 'util/types'];
    for (let i = 0; i < names.length; i++) {
      try {
        const module = await import(`node:${names[i]}`);
        module.default;
      } catch {}
    }
    return new Response('alive');
  },
};
