// Tries to obtain the number of the running invocation, which is carried beside the stores, with
// setters on the prototypes of lists, with replaced functions, and from the stores themselves.
// expect: answer held
// flags: nodejs_compat
// at once: 5
// requests: 2
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
const storage = new AsyncLocalStorage();
const other = new AsyncLocalStorage();
const seen = [];
for (const key of ['0', '1', 'key', 'value', 'next', 'owner', 'stores']) {
  for (const prototype of [Object.prototype, Array.prototype]) {
    Object.defineProperty(prototype, key, { __proto__: null, set(value) { seen.push(value); }, get() { seen.push(this); return undefined; }, configurable: true });
  }
}
let tampered = false;
const { apply } = Reflect;
Reflect.apply = function (f, self, args) { tampered = true; return apply(f, self, args); };
Array.prototype[Symbol.iterator] = ((iterator) => function () { return iterator.call(this); })(Array.prototype[Symbol.iterator]);
export default {
  async fetch() {
    const mine = {};
    const got = await storage.run(mine, () => other.run(7, async () => {
      await null;
      const resource = new AsyncResource('x');
      await new Promise((resolve) => setTimeout(resolve, 1));
      return resource.runInAsyncScope(() => storage.getStore() === mine && other.getStore() === 7);
    }));
    if (!got) return new Response('lost');
    for (const value of seen) {
      if (typeof value === 'number') return new Response('a number');
      if (Array.isArray(value) && typeof value[0] === 'number') return new Response('a context');
    }
    return new Response(tampered ? 'tampered' : 'held');
  },
};
