// Clones objects under setters for indices and names on the prototypes, which intercept stored
// values.
// expect: answer held
const leaked = [];
const { defineProperty } = Reflect;
const trap = (key) => ({
  __proto__: null, configurable: true, get() { return undefined; },
  set(value) {
    defineProperty(leaked, leaked.length, { __proto__: null, value: this, writable: true, enumerable: true, configurable: true });
    defineProperty(this, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  },
});
export default {
  async fetch(request, env, ctx) {
    const names = ['0', '1', '2', '3', 'a', 'next', 'below', 'kind', 'from', 'to', 'items', 'port', 'peer', 'first', 'last', 'value'];
    const value = { a: [1, 2, { b: new Map([[1, new Set([2])]]) }], next: 1, value: 2 };
    for (const name of names) {
      defineProperty(Object.prototype, name, trap(name));
      defineProperty(Array.prototype, name, trap(name));
    }
    const { port1, port2 } = new MessageChannel();
    const got = new Promise((resolve) => { port2.onmessage = resolve; });
    port1.postMessage(structuredClone(value));
    const event = await got;
    const form = new FormData();
    form.append('a', new Blob(['x']));
    const back = await new Response(form).formData();
    const held = back.get('a').size === 1 && performance.mark('m', { detail: value }).detail.value === 2 &&
      new URLPattern({ pathname: '/:next' }).exec({ pathname: '/x' }).pathname.groups.next === 'x' && event.data.a.length === 3;
    for (const name of names) {
      delete Object.prototype[name];
      delete Array.prototype[name];
    }
    for (const object of leaked) {
      for (const key of Reflect.ownKeys(object)) {
        if (typeof object[key] === 'function' && object[key].name === 'taskStart') return new Response('a native function');
      }
    }
    return new Response(held ? 'held' : 'lost');
  },
};
