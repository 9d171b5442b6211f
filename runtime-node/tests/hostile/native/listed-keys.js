// Passes JSON.stringify a list of keys that is too long, or that claims its length only when it is
// read again.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    let asked = 0;
    const late = new Proxy([], { get: (target, key) => (key === 'length' ? (asked++ ? 2 ** 32 - 1 : 1) : 'a') });
    for (const list of [new Array(2 ** 32 - 1), new Proxy(new Array(2 ** 32 - 1), {}), late]) {
      try {
        const text = JSON.stringify({ a: 1 }, list);
        if (list !== late || text !== '{"a":1}') return new Response(`it became ${text}`);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
    const keys = new Proxy(['a', 1, new String('b'), {}, , 'a'], {});
    const text = JSON.stringify({ a: 1, b: 2, c: 3, 1: 4 }, keys) + JSON.stringify({ a: [1], b: 2 }, ['b']);
    return new Response(text === '{"a":1,"1":4,"b":2}{"b":2}' ? 'held' : text);
  },
};
