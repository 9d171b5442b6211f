// Wraps a key as JSON under prototypes that would change what is written and read.
// expect: answer held
// limits: cpu_ms=500
const { subtle } = crypto;
const gcm = { name: 'AES-GCM', iv: new Uint8Array(12) };
export default {
  async fetch(request, env, ctx) {
    const wrapping = await subtle.importKey('raw', new Uint8Array(16), 'AES-GCM', false, ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey']);
    const key = await subtle.importKey('raw', new Uint8Array(16), 'AES-CBC', true, ['encrypt']);
    Array.prototype.toJSON = function () { return ['encrypt', 'decrypt']; };
    String.prototype.toJSON = () => 'no';
    Object.prototype.toJSON = () => ({ kty: 'oct', k: 'AAAA' });
    const wrapped = await subtle.wrapKey('jwk', key, wrapping, gcm);
    delete Array.prototype.toJSON;
    delete String.prototype.toJSON;
    delete Object.prototype.toJSON;
    const text = new TextDecoder().decode(await subtle.decrypt(gcm, wrapping, wrapped));
    if (text !== '{"kty":"oct","k":"AAAAAAAAAAAAAAAAAAAAAA","alg":"A128CBC","key_ops":["encrypt"],"ext":true}') return new Response(text);
    Object.prototype.ext = false;
    Object.prototype.use = 'sig';
    const back = await subtle.unwrapKey('jwk', wrapped, wrapping, gcm, 'AES-CBC', true, ['encrypt']);
    delete Object.prototype.ext;
    delete Object.prototype.use;
    return new Response(back.extractable ? 'held' : 'lost');
  },
};
