// Clones proxies of every kind, and objects whose prototype is a proxy; none of their traps may
// run.
// expect: answer held
const traps = new Proxy({}, { get: (_, name) => () => { throw new Error(`the trap ${name} has run`); } });
export default {
  async fetch(request, env, ctx) {
    for (const target of [{}, [], () => {}, new Map(), new Set(), new Date(), /x/, new Error(), new ArrayBuffer(1), new Uint8Array(1), Promise.resolve()]) {
      for (const value of [new Proxy(target, traps), { in: new Proxy(target, traps) }, new Map([[new Proxy(target, traps), 1]])]) {
        try {
          structuredClone(value);
          return new Response('cloned');
        } catch (error) {
          if (error.name !== 'DataCloneError') throw error;
        }
      }
    }
    const heir = Object.setPrototypeOf({ a: 1 }, new Proxy({}, traps));
    if (structuredClone(heir).a !== 1) return new Response('lost');
    try {
      structuredClone(1, { transfer: [new Proxy(new ArrayBuffer(1), traps)] });
    } catch (error) {
      if (error.name === 'DataCloneError') return new Response('held');
    }
  },
};
