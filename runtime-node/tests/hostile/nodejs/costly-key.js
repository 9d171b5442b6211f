// Reads a key whose encryption demands two billion iterations of PBKDF2.
// expect: cpu_limit_exceeded
// flags: nodejs_compat
import { createPrivateKey } from 'node:crypto';
const sequence = (...parts) => Buffer.concat([Buffer.from([0x30, Buffer.concat(parts).length]), ...parts]);
const octets = (length) => Buffer.concat([Buffer.from([4, length]), Buffer.alloc(length, 7)]);
const oid = (hex) => Buffer.from(`06${(hex.length / 2).toString(16).padStart(2, '0')}${hex}`, 'hex');
const derivation = sequence(oid('2a864886f70d01050c'), sequence(octets(8), Buffer.from([2, 4, 0x7F, 0xFF, 0xFF, 0xFF])));
const encryption = sequence(oid('60864801650304012a'), octets(16));
const key = sequence(sequence(oid('2a864886f70d01050d'), sequence(derivation, encryption)), octets(32));
export default {
  fetch() {
    return new Response(createPrivateKey({ key, format: 'der', type: 'pkcs8', passphrase: 'secret' }).type);
  },
};
