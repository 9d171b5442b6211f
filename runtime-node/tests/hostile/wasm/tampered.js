// Replaces nearly all functions that the built-in JavaScript could call.
// expect: answer 3 3 3
// limits: cpu_ms=2000
// with: assembler.js
import { constant, i32, program } from './assembler.js';
export default {
  async fetch(request, env, ctx) {
    const bytes = program(constant(3), { results: [i32] });
    const { instantiate, compile, Instance } = WebAssembly;
    const answer = (bytes) => new Response(bytes, { headers: { 'content-type': 'application/wasm' } });
    const first = answer(bytes);
    const { instantiateStreaming } = WebAssembly;
    const thief = () => { throw new Error('called'); };
    const { ownKeys } = Reflect;
    const { defineProperty } = Object;
    const targets = [Function.prototype, Uint8Array.prototype, Object.getPrototypeOf(Uint8Array.prototype), WeakMap.prototype,
      Promise.prototype, RegExp.prototype, WebAssembly.Module.prototype, WebAssembly.Memory.prototype, WebAssembly,
      Response.prototype, Headers.prototype, Array.prototype, Object.prototype];
    for (let i = 0; i < targets.length; i++) {
      const keys = ownKeys(targets[i]);
      for (let j = 0; j < keys.length; j++) {
        if (keys[j] === 'then') continue;
        try { defineProperty(targets[i], keys[j], { __proto__: null, value: thief }); } catch {}
      }
    }
    const names = ['get', 'set', 'value', 'shared', 'module', 'instance', 'address', 'builtins'];
    for (let i = 0; i < names.length; i++) defineProperty(Object.prototype, names[i], { __proto__: null, get: thief, set: thief });
    const one = (await instantiate(bytes)).instance.exports.run();
    const two = new Instance(await compile(bytes)).exports.run();
    const three = (await instantiateStreaming(first)).instance.exports.run();
    return new Response(`${one} ${two} ${three}`);
  },
};
