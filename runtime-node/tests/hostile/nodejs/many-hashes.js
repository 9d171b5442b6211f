// Keeps hashers whose results it does not read: their memory is outside of V8's heap.
// expect: memory_limit_exceeded or cpu_limit_exceeded or worker_exception
// flags: nodejs_compat
// limits: cpu_ms=2000 memory_mib=24
import { createHash, createHmac } from 'node:crypto';
export default {
  fetch() {
    const kept = [];
    for (;;) kept.push(createHash('sha3-512').update('x'), createHmac('sha512', 'key'), kept.at(-1)?.copy?.());
  },
};
