// Replaces the functions that the interfaces' own code might use, and uses the interfaces.
// expect: answer held
const { defineProperty, ownKeys } = Reflect;
const no = () => { throw new Error('tampered'); };
export default {
  async fetch(request, env, ctx) {
    const { Blob, File, FormData, MessageChannel, Response, URLPattern, HTMLRewriter, structuredClone, performance, scheduler, AbortSignal, Promise } = globalThis;
    const bytes = new Uint8Array([1]);
    const map = new Map([[1, { a: [1] }]]);
    const append = FormData.prototype.append;
    for (const { prototype } of [Map, Set, WeakMap, WeakRef, RegExp, String, Uint8Array.__proto__, ArrayBuffer, Date, Error]) {
      for (const key of ownKeys(prototype)) {
        if (key === 'constructor' || key === 'stack') continue;
        try {
          defineProperty(prototype, key, { __proto__: null, configurable: true, writable: true, value: no });
        } catch {}
      }
    }
    for (const key of ['push', 'shift', 'splice', 'sort', 'slice', 'concat']) {
      defineProperty(Array.prototype, key, { __proto__: null, configurable: true, writable: true, value: no });
    }
    const made = structuredClone({ map, bytes, date: new Date(1), error: new Error('m'), expression: /x/ });
    const form = new FormData();
    form.append('a', new File([], 'n'));
    form.append('b', 'x%22"\r');
    const back = await new Response(form).formData();
    const { port1, port2 } = new MessageChannel();
    const got = new Promise((resolve) => { port2.onmessage = resolve; });
    port1.postMessage({ map }, { transfer: undefined });
    const data = (await got).data;
    performance.mark('m');
    performance.measure('n', 'm');
    const pattern = new URLPattern('https://host/:a\\?x=:b');
    const match = pattern.exec('https://host/1?x=2').pathname.groups.a;
    const rewriter = new HTMLRewriter().on('p', {
      element: async (p) => void p.setAttribute('c', p.getAttribute('a')).append(new Response('&')).onEndTag((end) => void end.after(p.x)),
      text: (chunk) => void chunk.before(chunk.text),
    });
    const page = await rewriter.transform(new Response('<p a=b>x</p>')).text();
    await scheduler.wait(1, { signal: AbortSignal.timeout(1000) });
    return new Response(back.get('b') === 'x%22"\r\n' && match === '1' && page === '<p a=b c="b">xx&amp;</p>undefined' && data.map && made.bytes ? 'held' : 'lost');
  },
};
