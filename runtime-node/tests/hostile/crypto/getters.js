// Uses members of algorithms and of JSON Web Keys that detach buffers, start other operations, lie,
// or throw.
// expect: answer held
// limits: cpu_ms=500
const { subtle } = crypto;
const bytes = (length) => new Uint8Array(length).fill(7);
const take = (view) => view.buffer.byteLength > 0 && view.buffer.transfer();
export default {
  async fetch(request, env, ctx) {
    const key = await subtle.importKey('raw', bytes(16), 'AES-GCM', true, ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey']);
    const base = await subtle.importKey('raw', bytes(16), 'HKDF', false, ['deriveKey', 'deriveBits']);
    const data = bytes(100);
    const iv = bytes(12);
    const evil = (name, more) => ({
      get name() { take(data); return name; },
      get iv() { take(iv); return iv; },
      get additionalData() { take(data); return iv; },
      get tagLength() { subtle.digest('SHA-256', iv); take(iv); return 128; },
      get hash() { return { get name() { take(data); return 'SHA-256'; } }; },
      get salt() { return data; },
      get info() { take(data); return data; },
      get length() { take(data); return { valueOf() { take(iv); return 128; } }; },
      get public() { return Object.create(CryptoKey.prototype); },
      get counter() { return new DataView(iv.buffer); },
      get iterations() { return { valueOf() { throw new Error('no'); } }; },
      get namedCurve() { return { toString() { return crypto.subtle.generateKey('Ed25519', true, ['sign']), 'P-256'; } }; },
      get modulusLength() { return 2 ** 31; },
      get publicExponent() { take(iv); return iv; },
      get saltLength() { return -0; },
      ...more,
    });
    const jwk = new Proxy({}, {
      get(_, name) {
        take(data);
        if (name === 'key_ops') return { *[Symbol.iterator]() { yield 'encrypt'; take(iv); throw new Error('no more'); } };
        return name === 'kty' ? 'oct' : { toString() { return 'AAAA'; } };
      },
    });
    const names = ['AES-GCM', 'AES-CBC', 'AES-CTR', 'AES-KW', 'HMAC', 'HKDF', 'PBKDF2', 'ECDSA', 'ECDH', 'X25519', 'Ed25519', 'RSA-PSS', 'RSA-OAEP', 'SHA-1', 'constructor', '__proto__'];
    const calls = [];
    for (const name of names) {
      const algorithm = evil(name);
      calls.push(
        () => subtle.encrypt(algorithm, key, data), () => subtle.decrypt(algorithm, key, data.buffer), () => subtle.digest(algorithm, data),
        () => subtle.generateKey(algorithm, true, ['sign', 'deriveBits']), () => subtle.generateKey(algorithm, true, ['encrypt']),
        () => subtle.importKey('raw', data, algorithm, true, ['sign']), () => subtle.importKey('jwk', jwk, algorithm, true, ['encrypt']),
        () => subtle.importKey('spki', new DataView(data.buffer), algorithm, true, ['verify']),
        () => subtle.deriveBits(algorithm, base, { valueOf() { take(data); return 64; } }), () => subtle.deriveKey(algorithm, base, algorithm, true, ['encrypt']),
        () => subtle.wrapKey('jwk', key, key, algorithm), () => subtle.unwrapKey('raw', data, key, algorithm, algorithm, true, ['encrypt']),
        () => subtle.sign(algorithm, key, data), () => subtle.verify(algorithm, key, data, iv), () => subtle.exportKey({ toString() { take(data); return 'jwk'; } }, key),
      );
    }
    for (const call of calls) {
      try {
        await call();
      } catch (error) {
        if (!(error instanceof Error)) throw error;
      }
    }
    const still = await subtle.encrypt({ name: 'AES-GCM', iv: bytes(12) }, key, bytes(5));
    return new Response(still.byteLength === 21 ? 'held' : 'lost');
  },
};
