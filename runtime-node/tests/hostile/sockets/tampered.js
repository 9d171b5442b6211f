// Replaces every function that the sockets' own code could call.
// expect: answer policy policy true
// limits: cpu_ms=500
import { connect } from 'cloudflare:sockets';
const first = connect('10.0.0.1:80').opened.catch(() => {});
export default {
  async fetch() {
    const evil = () => { throw new Error('led astray'); };
    const { defineProperty, getOwnPropertyNames } = Object;
    for (const prototype of [
      Array.prototype, String.prototype, RegExp.prototype, Map.prototype, Uint8Array.prototype, ReadableStream.prototype,
      WritableStream.prototype, WritableStreamDefaultController.prototype, ReadableByteStreamController.prototype,
    ]) {
      for (const name of getOwnPropertyNames(prototype)) {
        if (name === 'constructor' || name === 'length' || (prototype === Array.prototype && name === 'join')) continue;
        try { defineProperty(prototype, name, { value: evil, configurable: true, writable: true }); } catch {}
      }
    }
    for (const name of ['owner', 'number', 'stage', 'highWaterMark', 'hostname', 'isOver', 'start', 'pull', 'size']) {
      defineProperty(Object.prototype, name, { get: evil, set: evil, configurable: true });
    }
    let unaffected = true;
    const stages = [];
    for (const address of ['10.0.0.1:80', '[::1]:80']) {
      const socket = connect(address, { __proto__: null, allowHalfOpen: true });
      try { await socket.opened; } catch (error) { stages[stages.length] = error.cause.stage; }
      try { await socket.close(); } catch { unaffected = false; }
    }
    return new Response(`${stages[0]} ${stages[1]} ${unaffected}`);
  },
};
