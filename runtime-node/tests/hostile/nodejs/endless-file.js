// Appends a file to itself through streams, and reads an endless device.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=500 memory_mib=24
import fs from 'node:fs';
import { pipeline } from 'node:stream/promises';
export default {
  async fetch() {
    fs.writeFileSync('/tmp/a', 'x'.repeat(100_000));
    await Promise.all([
      pipeline(fs.createReadStream('/tmp/a'), fs.createWriteStream('/tmp/a', { flags: 'a' })),
      pipeline(fs.createReadStream('/dev/zero'), fs.createWriteStream('/dev/null')),
    ]);
    return new Response();
  },
};
