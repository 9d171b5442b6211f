// Passes getters, proxies and conversions that throw, recurse and change their objects, to every
// function.
// expect: answer held
// limits: cpu_ms=5000 memory_mib=64 wall_ms=5000
export default {
  async fetch(request, env, ctx) {
    let calls = 0;
    const again = () => {
      if (++calls % 3 === 0) throw new Error('mine');
      if (calls < 5000) use[calls % use.length]();
      return calls % 2 ? 'https://host/' : calls;
    };
    const value = { toString: again, valueOf: again, [Symbol.toPrimitive]: again, get then() { return again(); }, toJSON: again };
    const anything = new Proxy(function () {}, {
      get: (_, key) => (key === Symbol.iterator && calls % 2 ? undefined : key === 'signal' ? undefined : value),
      has: () => true,
      ownKeys: () => ['a', 'b', 'prototype', Symbol.iterator],
      getOwnPropertyDescriptor: (target, key) => (key === 'prototype' ? Reflect.getOwnPropertyDescriptor(target, key)
        : { value, configurable: true, enumerable: true }),
      getPrototypeOf: again,
      apply: again,
      construct: () => (again(), {}),
    });
    const use = [
      () => new Response(anything, anything), () => new Response(value, value), () => Response.json(value, anything),
      () => Response.redirect(value, value), () => new Headers(anything), () => new Headers([[value, value]]),
      () => new Headers({ a: value }), () => new Request(value, anything), () => new Request(anything, value),
      () => new URL(value, value), () => new URL(anything), () => URL.canParse(value, anything),
      () => new URLSearchParams(anything), () => new URLSearchParams([[value, value]]), () => new URLSearchParams(value),
      () => setTimeout(anything, value, anything), () => setInterval(anything, value), () => clearTimeout(value),
      () => clearInterval(anything), () => queueMicrotask(anything), () => reportError(anything),
      () => addEventListener(value, anything, anything), () => removeEventListener(value, anything, anything),
      () => dispatchEvent(anything), () => new Event(value, anything), () => new CustomEvent(value, anything),
      () => new ErrorEvent(value, anything), () => new DOMException(value, anything), () => AbortSignal.any(anything),
      () => AbortSignal.abort(anything), () => AbortSignal.timeout(value), () => new AbortController().abort(anything),
      () => console.log(anything, value), () => console.log('%s %d %i %f %j %o %O %c', value, value, value, value, anything, anything, value),
      () => console.table(anything, anything), () => console.table([anything, value], [value]), () => console.assert(false, anything),
      () => console.count(value), () => console.time(anything), () => console.dir(anything, anything), () => console.group(value),
      () => console.trace(anything), () => console.groupEnd(), () => atob(value), () => btoa(value),
      () => new TextEncoder().encode(value), () => new TextEncoder().encodeInto(value, anything),
      () => new TextDecoder(value, anything), () => new TextDecoder().decode(anything, anything),
      () => crypto.getRandomValues(anything), () => ctx.waitUntil(anything), () => ctx.waitUntil(value),
      () => ctx.passThroughOnException(anything), () => performance.now(anything), () => new Intl.DateTimeFormat('en').format(value),
      () => new Date(value), () => Date(anything), () => Date.UTC(value), () => request.headers.get(value), () => request.clone(anything),
      () => Reflect.construct(Response, [], anything), () => Reflect.construct(URL, ['a:b'], anything), () => import(value),
    ];
    for (let round = 0; round < 20; round++) {
      for (const one of use) {
        calls = round * 7;
        try {
          const made = one();
          if (made instanceof Promise) made.catch(() => {});
        } catch {}
      }
    }
    return new Response('held');
  },
};
