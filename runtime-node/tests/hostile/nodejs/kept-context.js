// Keeps the context of an invocation that has ended, and enters it from others: operations that
// begin there must belong to the entering invocation, and timers of the ended invocation must not
// run.
// expect: answer mine
// flags: nodejs_compat
// requests: 3
import { AsyncLocalStorage } from 'node:async_hooks';
const storage = new AsyncLocalStorage();
let snapshot;
export default {
  async fetch() {
    const mine = {};
    if (snapshot === undefined) storage.run({ first: true }, () => { snapshot = AsyncLocalStorage.snapshot(); });
    const fired = await snapshot(() => new Promise((resolve) => setTimeout(() => resolve(storage.getStore()?.first === true), 1)));
    const after = await storage.run(mine, async () => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      return storage.getStore() === mine;
    });
    return new Response(fired && after ? 'mine' : 'not mine');
  },
};
