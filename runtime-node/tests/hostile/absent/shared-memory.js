// Looks for shared memory, and for the globals of other runtimes and of the built-in JavaScript, in
// everything that a Worker can reach.
// expect: answer held
// limits: cpu_ms=2000
export default {
  async fetch(request, env, ctx) {
    const wanted = ['SharedArrayBuffer', 'Atomics', 'ShadowRealm', 'gc', 'Deno', 'process', 'require', 'Worker',
      'importScripts', 'd8', '__dirname', 'internal', 'ops', 'primordials'];
    // The additional names are forbidden for globals only: methods of the platform's classes may
    // have them.
    const globals = [...wanted, 'quit', 'load', 'read', 'print', 'version', 'os'];
    const seen = new Set();
    const walk = (object, path) => {
      if ((typeof object !== 'object' && typeof object !== 'function') || object === null || seen.has(object)) return null;
      seen.add(object);
      for (const key of Reflect.ownKeys(object)) {
        if (wanted.includes(key)) return `${path}.${key}`;
        const { value, get } = Reflect.getOwnPropertyDescriptor(object, key);
        const found = walk(value, `${path}.${String(key)}`) ?? walk(get, `${path}.${String(key)}`);
        if (found !== null) return found;
      }
      return walk(Object.getPrototypeOf(object), `${path}.__proto__`);
    };
    for (const root of [globalThis, request, env, ctx, new Response('x'), import.meta, new Error('x'), (function () { return arguments; })()]) {
      const found = walk(root, 'root');
      if (found !== null) return new Response(found);
    }
    for (const name of globals) {
      for (const look of [() => eval(`typeof ${name}`), () => new Function(`return typeof ${name}`)(), () => (0, eval)(`typeof ${name}`)]) {
        if (look() !== 'undefined') return new Response(name);
      }
    }
    return new Response('held');
  },
};
