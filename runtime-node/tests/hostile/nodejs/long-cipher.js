// Encrypts sixteen megabytes repeatedly: each step must end at the limit.
// expect: cpu_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=50 memory_mib=96
import { createCipheriv } from 'node:crypto';
const large = Buffer.alloc(16 << 20, 1), key = Buffer.alloc(16), iv = Buffer.alloc(12);
export default {
  fetch() {
    for (;;) createCipheriv('aes-128-gcm', key, iv).setAAD(large).update(large);
  },
};
