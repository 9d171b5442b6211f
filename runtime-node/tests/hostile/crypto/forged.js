// Passes objects that are not keys, and keys whose visible properties were changed.
// expect: answer held
const { subtle } = crypto;
const gcm = { name: 'AES-GCM', iv: new Uint8Array(12) };
export default {
  async fetch(request, env, ctx) {
    const key = await subtle.importKey('raw', new Uint8Array(16), 'AES-GCM', false, ['encrypt']);
    const hmac = await subtle.importKey('raw', new Uint8Array(16), { name: 'HMAC', hash: 'SHA-256' }, true, ['sign']);
    class Mine extends CryptoKey { constructor() { return Object.create(CryptoKey.prototype); } }
    const forged = [
      Object.create(CryptoKey.prototype), Object.setPrototypeOf({}, key), new Proxy(key, {}), new Mine(), structuredClone({}), CryptoKey.prototype,
      { type: 'secret', extractable: true, algorithm: key.algorithm, usages: ['encrypt'] }, new ArrayBuffer(8), new Uint8Array(8), 1, 0n, Symbol.iterator,
    ];
    for (const other of forged) {
      for (const call of [() => subtle.encrypt(gcm, other, new Uint8Array(1)), () => subtle.exportKey('raw', other), () => subtle.wrapKey('raw', other, key, gcm),
        () => subtle.deriveBits({ name: 'X25519', public: other }, key, 8), () => subtle.sign('HMAC', other, new Uint8Array(1))]) {
        try {
          await call();
          return new Response('taken for a key');
        } catch (error) {
          if (!(error instanceof TypeError)) throw error;
        }
      }
    }
    // A Worker may change the visible properties, but the changes have no effect.
    key.usages.push('decrypt', 'wrapKey');
    key.algorithm.name = 'AES-KW';
    Object.defineProperty(key, 'extractable', { value: true });
    Object.setPrototypeOf(hmac, null);
    for (const call of [() => subtle.exportKey('raw', key), () => subtle.decrypt(gcm, key, new Uint8Array(20)), () => subtle.wrapKey('raw', hmac, key, gcm)]) {
      try {
        await call();
        return new Response('changed');
      } catch (error) {
        if (error.name !== 'InvalidAccessError') throw error;
      }
    }
    return new Response((await subtle.sign('HMAC', hmac, new Uint8Array(1))).byteLength === 32 ? 'held' : 'lost');
  },
};
