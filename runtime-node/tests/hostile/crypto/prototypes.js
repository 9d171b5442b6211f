// Intercepts promises, JSON and lists through prototypes while keys are used: key material that is
// not extractable must not be visible there.
// expect: answer held
// limits: cpu_ms=500
const { subtle } = crypto;
const bytes = (length) => new Uint8Array(length).fill(7);
const gcm = { name: 'AES-GCM', iv: bytes(12) };
export default {
  async fetch(request, env, ctx) {
    const base = await subtle.importKey('raw', bytes(32), 'HKDF', false, ['deriveKey']);
    const wrapping = await subtle.importKey('raw', bytes(16), 'AES-GCM', false, ['encrypt', 'wrapKey', 'unwrapKey']);
    const pair = await subtle.generateKey({ name: 'ECDH', namedCurve: 'P-256' }, true, ['deriveKey']);
    const wrapped = await subtle.encrypt(gcm, wrapping, bytes(16));
    const text = new TextEncoder().encode('{"kty":"oct","k":"BwcHBwcHBwcHBwcHBwcHBw"}');
    const wrappedText = await subtle.encrypt(gcm, wrapping, text);

    const seen = [];
    const look = (value) => {
      if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) seen.push(value.byteLength);
      else if (typeof value === 'number') seen.push(value);
    };
    const { then } = Promise.prototype;
    const restore = [];
    const put = (object, key, descriptor) => {
      const before = Object.getOwnPropertyDescriptor(object, key);
      restore.push(() => (before ? Object.defineProperty(object, key, before) : delete object[key]));
      Object.defineProperty(object, key, { configurable: true, ...descriptor });
    };
    put(Object.prototype, 'then', { get() { look(this); return undefined; } });
    put(Object.prototype, 'toJSON', { get() { look(this); if (typeof this === 'object' && Array.isArray(this)) return () => ['encrypt', 'decrypt']; return undefined; } });
    for (const key of ['k', 'alg', 'ext', 'key_ops', 'use', 'hash', 'length', 'iv', 'label', 'name', 'd']) {
      put(Object.prototype, key, { get() { look(this); return undefined; }, set(value) { look(value); } });
    }
    put(Promise.prototype, 'constructor', { value: class {} });
    put(Promise.prototype, 'then', { value(done, failed) { return then.call(this, (value) => { look(value); return done?.(value); }, failed); } });
    put(Array.prototype, Symbol.iterator, { value: function* () { yield 'decrypt'; yield 'encrypt'; } });
    put(Array.prototype, 0, { set(value) { look(value); } });
    put(RegExp.prototype, 'exec', { value: (value) => { look(value); return null; } });

    const once = () => {
      let calls = 0;
      return { next: () => ({ done: calls++ > 0, value: 'encrypt' }) };
    };
    const usages = { [Symbol.iterator]: once };
    const own = (object) => Object.assign(Object.create(null), object);
    const aes = own({ name: 'AES-GCM', length: 128 });
    const iv = own(gcm);
    const derive = own({ name: 'HKDF', hash: 'SHA-256', salt: bytes(4), info: bytes(4) });
    const agree = own({ name: 'ECDH', public: pair.publicKey });
    const results = [
      subtle.deriveKey(derive, base, aes, false, usages), subtle.deriveKey(agree, pair.privateKey, aes, false, usages),
      subtle.unwrapKey('raw', wrapped, wrapping, iv, 'AES-GCM', false, usages),
      subtle.unwrapKey('jwk', wrappedText, wrapping, iv, 'AES-GCM', false, usages),
      subtle.generateKey(aes, false, usages),
    ];
    let keys = 0;
    let at = 0;
    const outcomes = [];
    await new Promise((resolve) => {
      for (let i = 0; i < results.length; i++) {
        then.call(results[i], (key) => { keys += key.extractable === false ? 1 : 0; if (++at === results.length) resolve(); },
          (error) => { outcomes[outcomes.length] = error; if (++at === results.length) resolve(); });
      }
    });
    for (let i = restore.length - 1; i >= 0; i--) restore[i]();
    if (outcomes.length > 0) throw outcomes[0];
    if (seen.length > 0) return new Response(`seen: ${seen}`);
    return new Response(keys === 5 ? 'held' : `${keys} keys`);
  },
};
