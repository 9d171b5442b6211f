// Generates RSA keys on the thread that it shares with other Workers.
// expect: cpu_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=200
import { generateKeyPairSync } from 'node:crypto';
export default {
  fetch() {
    for (;;) generateKeyPairSync('rsa', { modulusLength: 4096 });
  },
};
