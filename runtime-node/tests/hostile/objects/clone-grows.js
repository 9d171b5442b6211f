// Clones objects whose getters resize, clear, detach or clone objects during the walk.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    const list = [1, 2, 3, 4];
    Object.defineProperty(list, 0, { enumerable: true, configurable: true, get() { list.length = 1e6; return 0; } });
    Object.defineProperty(list, 1, { enumerable: true, configurable: true, get() { list.length = 2; return 1; } });
    const made = structuredClone(list);
    if (made.length !== 4) return new Response(`${made.length}`);
    const map = new Map([['a', { get x() { map.clear(); for (let i = 0; i < 1000; i++) map.set(i, i); return 1; } }], ['b', 2]]);
    if (structuredClone(map).size !== 2) return new Response('grown');
    const self = { get a() { return structuredClone(self.b); }, b: { c: 1 } };
    const bytes = new Uint8Array(8);
    const odd = { get a() { bytes.buffer.transfer(); return 1; }, bytes };
    try {
      structuredClone(odd);
      return new Response('cloned what is detached');
    } catch (error) {
      if (error.name !== 'DataCloneError') throw error;
    }
    const recursion = { get a() { return structuredClone(recursion); } };
    try {
      structuredClone(recursion);
      return new Response('ended');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response(structuredClone(self).a.c === 1 ? 'held' : 'lost');
  },
};
