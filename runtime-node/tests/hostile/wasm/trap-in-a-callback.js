// Traps and throws in the callbacks of built-in functions.
// expect: answer held
// limits: cpu_ms=2000
// with: assembler.js
import { assemble, i32, op, program } from './assembler.js';
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    const trap = instance(program([op.unreachable])).run;
    const tries = [
      () => [3, 1, 2].sort(trap), () => [1].map(trap), () => JSON.stringify({ toJSON: trap }), () => `${{ toString: trap }}`,
      () => new Proxy({}, { get: trap }).x, () => Object.defineProperty({}, 'x', { get: trap }).x, () => 'a'.replace(/a/, trap),
      () => new Response(new Proxy({}, { get: trap })), () => new Headers({ get a() { return trap(); } }),
      () => new WebAssembly.Memory({ get initial() { return trap(); } }), () => new WebAssembly.Table({ get element() { trap(); } }),
      () => new WebAssembly.Instance(new WebAssembly.Module(assemble({ imports: [['m', 'g', 3, i32, 0]] })), { get m() { return trap(); } }),
      () => instance(assemble({ types: [[[], []]], imports: [['m', 'f', 0, 0]], start: 0 }), { m: { f: trap } }),
    ];
    for (const attempt of tries) {
      try { attempt(); return new Response(`${attempt}`); } catch (error) {
        if (!(error instanceof WebAssembly.RuntimeError)) return new Response(`${attempt} ${error}`);
      }
    }
    setTimeout(trap, 0);
    queueMicrotask(trap);
    ctx.waitUntil(Promise.resolve().then(trap));
    await new Promise((resolve) => setTimeout(resolve, 5));
    return new Response('held');
  },
};
