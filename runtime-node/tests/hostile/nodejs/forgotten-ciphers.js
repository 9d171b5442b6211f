// Creates and drops ciphers, whose memory must be freed.
// expect: answer 20000
// flags: nodejs_compat
// limits: cpu_ms=10000 wall_ms=60000 memory_mib=24
import { createDecipheriv, createVerify } from 'node:crypto';
const key = Buffer.alloc(32), iv = Buffer.alloc(12);
export default {
  async fetch() {
    let count = 0;
    for (; count < 20_000; count++) {
      createDecipheriv('aes-256-gcm', key, iv).update('x');
      if (count % 10 === 0) createVerify('sha256').update('x');
      if (count % 1000 === 0) await new Promise((resolve) => setTimeout(resolve));
    }
    return new Response(`${count}`);
  },
};
