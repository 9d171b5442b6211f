// Uses a proxy that first claims one element, and later 2²⁵ elements.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    let asked = 0;
    const liar = new Proxy([], { get: (_, key) => (key === 'length' ? (asked++ ? 2 ** 25 : 1) : 0) });
    Array.prototype.lastIndexOf.call(liar, 1);
    return new Response('held');
  },
};
