// Replaces every built-in function that the creation of a value module might call.
// expect: answer held
const stolen = [];
const take = (what) => stolen.push(what);
JSON.parse = () => take('JSON.parse');
Promise.prototype.then = new Proxy(Promise.prototype.then, {
  apply(then, self, args) {
    return Reflect.apply(then, self, args);
  },
});
for (const key of ['default', 'type', 'then', 'value', '0', '1', 'toJSON']) {
  Object.defineProperty(Object.prototype, key, { __proto__: null, get: () => undefined, set: () => take(key), configurable: true });
}
Object.defineProperty(Uint8Array.prototype, 'buffer', { __proto__: null, get: () => take('buffer') });
Uint8Array.prototype.constructor = { [Symbol.species]: function () { take('species'); } };
ArrayBuffer.prototype.slice = () => take('slice');
String.prototype.toString = () => take('toString');
export default {
  async fetch() {
    const { default: json } = await import('./a.json');
    const { default: text } = await import('./a.txt');
    const { default: bin } = await import('./a.bin');
    const { default: bytes } = await import('./a.bin', { with: { type: 'bytes' } });
    for (const key of ['default', 'type', 'then', 'value', '0', '1', 'toJSON']) delete Object.prototype[key];
    const held = json.a[1] === 2 && text === 'text\n' && bin.byteLength === 4 && bytes[0] === 98 && bytes.length === 4;
    return new Response(held && stolen.length === 0 ? 'held' : `${held} ${stolen}`);
  },
};
// module: a.json
{"a": [1, 2]}
// module: a.txt
text
// module: a.bin
bin
