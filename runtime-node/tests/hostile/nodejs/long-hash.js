// Hashes sixteen megabytes repeatedly: each step must end at the limit.
// expect: cpu_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=50 memory_mib=64
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
const large = Buffer.alloc(16 << 20, 1);
export default {
  fetch() {
    for (;;) {
      createHash('md5').update(large).digest();
      createHmac('sha1', large).update(large).digest();
      timingSafeEqual(large, large);
    }
  },
};
