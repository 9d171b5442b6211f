// Enters one store after another: none of them may remain in memory.
// expect: answer entered
// flags: nodejs_compat
// limits: cpu_ms=5000 memory_mib=24
import { AsyncLocalStorage } from 'node:async_hooks';
const storage = new AsyncLocalStorage();
export default {
  async fetch() {
    for (let i = 0; i < 300_000; i++) storage.enterWith({ i, text: 'x'.repeat(100) });
    return new Response('entered');
  },
};
