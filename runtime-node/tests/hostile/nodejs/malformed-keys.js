// Reads keys with a changed byte, in every format: they must be refused, or work.
// expect: answer nothing
// flags: nodejs_compat
// limits: cpu_ms=20000
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto';
const data = Buffer.from('data');
export default {
  fetch() {
    for (const [kind, options, types] of [['ec', { namedCurve: 'P-256' }, ['pkcs8', 'sec1']], ['ed25519', undefined, ['pkcs8']]]) {
      const { privateKey, publicKey } = generateKeyPairSync(kind, options);
      const hash = kind === 'ec' ? 'sha256' : null;
      const written = types.map((type) => [privateKey.export({ format: 'der', type }), type, createPrivateKey]);
      written.push([publicKey.export({ format: 'der', type: 'spki' }), 'spki', createPublicKey]);
      for (const [der, type, create] of written) {
        for (let at = 0; at < der.length; at++) {
          const key = Buffer.from(der);
          key[at] ^= 1 << (at % 8);
          try {
            const made = create({ key, format: 'der', type });
            if (made.type === 'private') sign(hash, data, made);
            else verify(hash, data, made, Buffer.alloc(64));
          } catch (error) {
            if (!(error instanceof Error)) throw error;
          }
          try {
            create(Buffer.concat([Buffer.from('-----BEGIN CERTIFICATE-----\n'), Buffer.from(key.toString('base64')), Buffer.from('-----END CERTIFICATE-----')]));
          } catch {}
        }
      }
    }
    return new Response('nothing');
  },
};
