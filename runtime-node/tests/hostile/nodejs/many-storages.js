// Creates a hundred thousand AsyncLocalStorages, each with a value.
// expect: cpu_limit_exceeded or memory_limit_exceeded or worker_exception
// flags: nodejs_compat
import { AsyncLocalStorage } from 'node:async_hooks';
export default {
  async fetch() {
    const all = [];
    for (let i = 0; i < 100_000; i++) {
      all.push(new AsyncLocalStorage());
      all[i].enterWith(i);
    }
    for (;;) for (const storage of all) storage.enterWith(await storage.getStore());
  },
};
