// Splits a text into many empty lines, and encodes and decodes long labels of Punycode.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=500 memory_mib=24
import punycode from 'node:punycode';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
export default {
  async fetch() {
    for await (const line of createInterface({ input: Readable.from(['\n'.repeat(1 << 16)]) })) void line;
    punycode.decode(punycode.encode('ä'.repeat(1 << 14)));
    for (;;) punycode.encode('äöü'.repeat(1 << 12));
  },
};
