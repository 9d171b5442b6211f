// Checks that bounded array functions return the results that the standard requires.
// expect: answer held
// limits: cpu_ms=1000
export default {
  async fetch(request, env, ctx) {
    const check = (is, should) => {
      if (JSON.stringify(is) !== JSON.stringify(should)) throw new Error(`${JSON.stringify(is)} is not ${JSON.stringify(should)}`);
    };
    const args = (function () {
      return arguments;
    })(1, 2);
    class Kind extends Array {}
    const traced = [];
    const proxy = new Proxy([1, 2], { get: (target, key, receiver) => (traced.push(key), Reflect.get(target, key, receiver)) });
    const like = { length: 2, 0: 'a', 1: 'b' };
    check([3, 1, 2].sort(), [1, 2, 3]);
    check([1, [2, [3]]].flat(Infinity), [1, 2, 3]);
    check(Array.prototype.slice.call(args), [1, 2]);
    check(Array.prototype.map.call('abc', (x) => x + x), ['aa', 'bb', 'cc']);
    check(Array.prototype.join.call(new Uint8Array(3), '-'), '0-0-0');
    check(Array.prototype.reverse.call(like) === like, true);
    check(Kind.from([1]) instanceof Kind, true);
    check(new Kind(1, 2).map((x) => x) instanceof Kind, true);
    check(proxy.map((x) => x + 1), [2, 3]);
    check(traced.includes('1'), true);
    check(Array.isArray(new Proxy([], {})), true);
    check([Proxy.name, Proxy.length, 'prototype' in Proxy, typeof Proxy.revocable({}, {}).revoke], ['Proxy', 2, false, 'function']);
    check([[].map.name, [].map.length, String([1, [2, 3]])], ['map', 1, '1,2,3']);
    check(await Promise.all([1, Promise.resolve(2)]), [1, 2]);
    check(await Promise.any(new Set([Promise.reject(), 2])), 2);
    check(String.raw`a\n${1}`, 'a\\n1');
    check('a-b'.split('-'), ['a', 'b']);
    for (const wrong of [() => Array.prototype.map.call(null, Boolean), () => Proxy({}, {}), () => new Proxy(1, {}), () => String.prototype.split.call(null)]) {
      try {
        wrong();
        throw new Error(`${wrong} went through`);
      } catch (error) {
        check(error.name, 'TypeError');
      }
    }
    return new Response('held');
  },
};
