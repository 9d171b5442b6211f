// Endlessly pushes to a stream, and ignores its backpressure.
// expect: memory_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=10000 wall_ms=20000 memory_mib=24
import { Readable } from 'node:stream';
export default {
  fetch() {
    const source = new Readable({ objectMode: true, read() {} });
    for (;;) source.push({ text: 'x'.repeat(100) + source.readableLength });
  },
};
