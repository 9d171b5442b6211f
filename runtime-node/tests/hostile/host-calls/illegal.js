// Calls every method of the platform on receivers of other types.
// expect: answer held
// limits: cpu_ms=5000
export default {
  async fetch(request, env, ctx) {
    const wrong = [undefined, null, 1, 'x', {}, [], () => {}, Object.create(Response.prototype), new Proxy(new Response(), {}),
      new Proxy(request, {}), Object.create(request), globalThis, ctx, env];
    for (const name of Object.getOwnPropertyNames(globalThis)) {
      const { prototype } = globalThis[name] ?? {};
      if (typeof prototype !== 'object' || prototype === null || globalThis[name] === Object) continue;
      if (!String(globalThis[name]).startsWith('class')) continue;
      for (const key of Reflect.ownKeys(prototype)) {
        const { get, set, value } = Reflect.getOwnPropertyDescriptor(prototype, key);
        for (const method of [get, set, value]) {
          if (typeof method !== 'function' || method === globalThis[name]) continue;
          for (const receiver of wrong) {
            try {
              const result = Reflect.apply(method, receiver, [receiver, receiver]);
              if (result instanceof Promise) result.catch(() => {});
            } catch {}
          }
        }
      }
      for (const receiver of wrong) {
        try {
          new globalThis[name](receiver, receiver, receiver);
        } catch {}
      }
    }
    return new Response('held');
  },
};
