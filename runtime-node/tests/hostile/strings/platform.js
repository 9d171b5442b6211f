// Passes the longest string to every function of the platform that takes one.
// expect: answer held
// limits: cpu_ms=1000
export default {
  async fetch(request, env, ctx) {
    const long = 'x'.repeat(2 ** 26 - 24);
    const uses = [
      () => new URL(long), () => new URL('/', long), () => URL.canParse(long), () => new URLSearchParams(long),
      () => new URLSearchParams({ a: long }), () => atob(long), () => btoa(long), () => new TextEncoder().encode(long),
      () => new TextEncoder().encodeInto(long, new Uint8Array(1)), () => new TextDecoder(long), () => new Response(long),
      () => new Response('', { statusText: long }), () => new Headers({ a: long }), () => new Headers([[long, 'a']]),
      () => new Request('https://host/', { method: long }), () => new Event(long), () => new DOMException(long),
      () => addEventListener(long, () => {}), () => new Response('', { headers: [['a', long]] }),
      () => Response.redirect(long), () => new Request(long), () => new Response({ toString: () => long }), () => new CustomEvent(long),
    ];
    for (const use of uses) {
      try {
        use();
        return new Response(`${use} went through`);
      } catch (error) {
        if (!(error instanceof RangeError) && !(error instanceof TypeError)) throw error;
      }
    }
    return new Response('held');
  },
};
