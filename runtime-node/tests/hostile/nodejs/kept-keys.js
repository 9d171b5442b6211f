// Replaces built-in functions and classes, to get the bytes of keys that are not extractable and
// the handles of keys.
// expect: answer nothing
// flags: nodejs_compat
import { KeyObject, createHmac, createPrivateKey, createSecretKey, generateKeyPairSync, hkdfSync } from 'node:crypto';
const seen = [];
const secret = new Uint8Array(32).fill(0xA7);
const isSecret = (value) => ArrayBuffer.isView(value) && value.byteLength === 32 && new DataView(value.buffer, value.byteOffset)[read](0) === 0xA7;
const read = 'getUint8';
export default {
  async fetch() {
    const key = await crypto.subtle.importKey('raw', secret, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
    const object = KeyObject.from(key);
    const watch = (owner, name) => {
      const { value, get } = Object.getOwnPropertyDescriptor(owner, name);
      const original = value ?? get;
      const replaced = function (...given) {
        for (const one of [this, ...given]) if (isSecret(one) || (one instanceof ArrayBuffer && one.byteLength === 8)) seen.push(name);
        return Reflect.apply(original, this, given);
      };
      Object.defineProperty(owner, name, value === undefined ? { get: replaced } : { value: replaced });
    };
    watch(Buffer, 'from');
    watch(Buffer, 'concat');
    watch(Object.getPrototypeOf(Uint8Array.prototype), 'subarray');
    for (const Class of [object.constructor, Object.getPrototypeOf(generateKeyPairSync('ed25519').privateKey).constructor]) {
      try {
        Object.setPrototypeOf(Class, class { constructor(...given) { seen.push(given.length); } });
        return new Response('replaced a class');
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    }
    createHmac('sha256', key).update('x').digest();
    hkdfSync('sha256', object, '', '', 16);
    object.equals(createSecretKey(new Uint8Array(32)));
    for (const take of [() => object.export(), () => object.export({ format: 'jwk' }), () => object.toCryptoKey({ name: 'HMAC', hash: 'SHA-256' }, true, ['sign']),
      () => new object.constructor('secret', new ArrayBuffer(8), true), () => createPrivateKey(object), () => structuredClone(object).export()]) {
      try {
        return new Response(`took ${take()}`);
      } catch (error) {
        if (!(error instanceof Error)) throw error;
      }
    }
    return new Response(seen.join(' ') || 'nothing');
  },
};
