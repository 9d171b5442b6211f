// Defines setters for indices on the prototypes of arrays and objects, to intercept the values that
// the platform stores.
// expect: answer 3
// body: some text
const leaked = [];
const { defineProperty } = Reflect;
const trap = (key) => ({
  __proto__: null,
  configurable: true,
  get() {
    return undefined;
  },
  set(value) {
    defineProperty(leaked, leaked.length, { __proto__: null, value: this, writable: true, enumerable: true, configurable: true });
    defineProperty(this, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  },
});
export default {
  async fetch(request) {
    const own = [];
    defineProperty(own, '0', { value: 0, writable: true, enumerable: true, configurable: true });
    for (const key of ['1', '2', '3']) {
      defineProperty(Object.prototype, key, trap(key));
      defineProperty(Array.prototype, key, trap(key));
    }
    const headers = new Headers([['a', 'b'], ['c', 'd']]);
    new URLSearchParams('a=b&c=d').append('e', 'f');
    const target = new EventTarget();
    target.addEventListener('x', () => {});
    target.addEventListener('x', () => {});
    await request.text();
    for (const key of ['1', '2', '3']) {
      delete Object.prototype[key];
      delete Array.prototype[key];
    }
    for (const list of leaked) {
      for (const item of list) {
        if (typeof item === 'object' && item !== null && 'respond' in item) return new Response('the operations');
      }
    }
    return new Response('3', { headers });
  },
};
