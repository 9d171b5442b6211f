// Keeps ciphers that it never finishes: their memory is outside of V8's heap.
// expect: memory_limit_exceeded or cpu_limit_exceeded or worker_exception
// flags: nodejs_compat
// limits: cpu_ms=2000 memory_mib=24
import { createCipheriv, createSign } from 'node:crypto';
export default {
  fetch() {
    const kept = [];
    for (;;) kept.push(createCipheriv('aes-256-gcm', Buffer.alloc(32), Buffer.alloc(12)), createSign('sha512'));
  },
};
