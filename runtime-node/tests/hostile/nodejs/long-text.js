// Converts megabytes between bytes and text, and searches them without a match: native loops must
// be bounded.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=50 memory_mib=96
const large = Buffer.alloc(24 << 20, 0x61);
const spaces = 'A'.repeat(2) + ' '.repeat(4 << 20);
export default {
  fetch() {
    for (;;) {
      large.indexOf(Buffer.alloc(1 << 20, 'ab'));
      large.lastIndexOf('b');
      large.indexOf(Buffer.alloc(8 << 20, 0x61).fill('b', -1 + (8 << 20)));
      large.compare(Buffer.from(large));
      for (const encoding of ['utf8', 'hex', 'base64', 'latin1', 'ascii']) large.toString(encoding, 0, 8 << 20);
      Buffer.from(spaces, 'base64');
    }
  },
};
