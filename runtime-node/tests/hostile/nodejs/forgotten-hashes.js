// Creates and drops hashers, whose memory must be freed.
// expect: answer 20000
// flags: nodejs_compat
// limits: cpu_ms=5000 memory_mib=24
import { createHash } from 'node:crypto';
export default {
  async fetch() {
    let count = 0;
    for (; count < 20_000; count++) {
      createHash('sha256').update('x');
      if (count % 1000 === 0) await new Promise((resolve) => setTimeout(resolve));
    }
    return new Response(`${count}`);
  },
};
