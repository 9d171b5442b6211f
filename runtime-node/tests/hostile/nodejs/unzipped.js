// Decompresses a small input to 4 MiB repeatedly, and keeps the outputs.
// expect: memory_limit_exceeded or cpu_limit_exceeded or answer refused
// flags: nodejs_compat
// limits: cpu_ms=2000 memory_mib=24
import { gunzipSync, gzipSync } from 'node:zlib';
export default {
  fetch() {
    let bomb = gzipSync(Buffer.alloc(4 << 20));
    try {
      const all = [];
      for (;;) all.push(gunzipSync(bomb));
    } catch {
      return new Response('refused');
    }
  },
};
