// Requests extreme lengths wherever a length can be given.
// expect: answer held
// limits: cpu_ms=500
const { subtle } = crypto;
const most = 2 ** 32 - 8;
export default {
  async fetch(request, env, ctx) {
    const hkdf = await subtle.importKey('raw', new Uint8Array(8), 'HKDF', false, ['deriveBits', 'deriveKey']);
    const pbkdf2 = await subtle.importKey('raw', new Uint8Array(8), 'PBKDF2', false, ['deriveBits', 'deriveKey']);
    const { privateKey, publicKey } = await subtle.generateKey('X25519', true, ['deriveBits', 'deriveKey']);
    const calls = [
      () => subtle.deriveBits({ name: 'HKDF', hash: 'SHA-512', salt: new Uint8Array(0), info: new Uint8Array(0) }, hkdf, most),
      () => subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-512', salt: new Uint8Array(0), iterations: 1 }, pbkdf2, most),
      () => subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-1', salt: new Uint8Array(0), iterations: 1 }, pbkdf2, 2 ** 31),
      () => subtle.deriveBits({ name: 'X25519', public: publicKey }, privateKey, most),
      () => subtle.generateKey({ name: 'HMAC', hash: 'SHA-1', length: 2 ** 32 - 1 }, true, ['sign']),
      () => subtle.deriveKey({ name: 'PBKDF2', hash: 'SHA-1', salt: new Uint8Array(0), iterations: 1 }, pbkdf2, { name: 'HMAC', hash: 'SHA-1', length: most }, true, ['sign']),
      () => subtle.importKey('raw', new Uint8Array(8 << 20), { name: 'HMAC', hash: 'SHA-1' }, true, ['sign']),
      () => subtle.importKey('raw', new Uint8Array(8 << 20), 'PBKDF2', false, ['deriveBits']),
      () => subtle.importKey('jwk', { kty: 'oct', k: 'A'.repeat(2 ** 24) }, { name: 'HMAC', hash: 'SHA-1' }, true, ['sign']),
      () => subtle.importKey('jwk', { kty: 'RSA', n: '_'.repeat(2 ** 20), e: '_'.repeat(2 ** 20) }, { name: 'RSA-PSS', hash: 'SHA-1' }, true, ['verify']),
      () => subtle.importKey('jwk', { kty: 'RSA', n: '_'.repeat(1364), e: '_'.repeat(1364) }, { name: 'RSA-PSS', hash: 'SHA-1' }, true, ['verify']),
      () => subtle.importKey('spki', new Uint8Array(8 << 20).fill(0x30), { name: 'RSA-PSS', hash: 'SHA-1' }, true, ['verify']),
    ];
    for (const call of calls) {
      try {
        await call();
        return new Response(`granted: ${call}`);
      } catch (error) {
        if (!['OperationError', 'DataError', 'NotSupportedError', 'RangeError'].includes(error.name)) throw error;
      }
    }
    return new Response('held');
  },
};
