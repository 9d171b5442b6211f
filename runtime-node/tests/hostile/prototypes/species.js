// Replaces constructors through Symbol.species.
// expect: answer well
export default {
  async fetch(request, env, ctx) {
    const evil = function (executor) {
      executor(() => {}, () => {});
      return { fake: true };
    };
    for (const constructor of [Promise, Array, ArrayBuffer, RegExp, Map, Set, Object.getPrototypeOf(Uint8Array)]) {
      Object.defineProperty(constructor, Symbol.species, { get: () => evil, configurable: true });
      Object.defineProperty(constructor.prototype, 'constructor', { get: () => evil, configurable: true });
    }
    const answer = new Response('well');
    ctx.waitUntil(answer);
    try {
      await import('worker.js');
    } catch {}
    return answer;
  },
};
