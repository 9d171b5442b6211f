// Logs objects whose lengths are getters, which must not be called.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    let ran = 0;
    const get = () => {
      ran++;
      return 2 ** 53;
    };
    const spied = [new Uint8Array(3), (function () { return arguments; })(1, 2), new Map([[1, 2]]), new Set([1]), new ArrayBuffer(3), new String('x')];
    for (const object of spied) {
      for (const key of ['length', 'size', 'byteLength', 'constructor', Symbol.iterator, Symbol.toStringTag, 'name']) {
        try {
          Object.defineProperty(object, key, { get, configurable: true });
        } catch {}
      }
    }
    console.log(...spied);
    console.table(spied);
    return new Response(ran === 0 ? 'held' : `${ran} times`);
  },
};
