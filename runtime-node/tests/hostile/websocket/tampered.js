// Replaces every function that the WebSockets' own code could call.
// expect: answer one 2 close 4000 why true
export default {
  async fetch() {
    const { defineProperty, getOwnPropertyNames } = Object;
    const evil = () => { throw new Error('led astray'); };
    const pairs = new WebSocketPair();
    const one = pairs[0];
    const other = pairs[1];
    const seen = [];
    for (const prototype of [Array.prototype, String.prototype, RegExp.prototype, Map.prototype, EventTarget.prototype]) {
      for (const name of getOwnPropertyNames(prototype)) {
        if (name === 'constructor' || name === 'length' || (prototype === Array.prototype && (name === 'push' || name === 'join'))) continue;
        try { defineProperty(prototype, name, { value: evil, configurable: true, writable: true }); } catch {}
      }
    }
    defineProperty(Object.prototype, 'bubbles', { get: evil, configurable: true });
    defineProperty(Object.prototype, 'data', { get: evil, set: evil, configurable: true });
    defineProperty(Object.prototype, 'next', { get: evil, set: evil, configurable: true });
    defineProperty(Array.prototype, '0', { get: evil, set: evil, configurable: true });
    Promise.prototype.then = evil;
    MessageEvent.prototype.constructor = evil;
    delete Object.prototype.data;
    delete Array.prototype[0];
    one.accept();
    other.accept();
    let over;
    const end = new Promise((resolve) => { over = resolve; });
    other.onmessage = ({ data }) => {
      seen.push(typeof data === 'string' ? data : `${data.byteLength}`);
      if (seen.length === 2) other.close(4000, 'why');
    };
    one.onclose = ({ type, code, reason, wasClean }) => {
      seen.push(type, `${code}`, reason, `${wasClean}`);
      over();
    };
    one.send('one');
    one.send(new Uint8Array(2));
    await end;
    return new Response(seen.join(' '));
  },
};
