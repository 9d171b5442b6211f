// Replaces functions that the streams' own code might call, and searches their receivers and
// arguments for the internal objects of the platform.
// expect: answer held
// flags: nodejs_compat
import { PassThrough, Readable } from 'node:stream';
const seen = [];
for (const [prototype, names] of [[Array.prototype, ['push', 'slice', 'splice', 'shift', 'indexOf']], [Promise.prototype, ['then']], [Set.prototype, ['add', 'has']], [Function.prototype, ['call', 'apply', 'bind']]]) {
  for (const name of names) {
    const original = prototype[name];
    prototype[name] = function (...args) {
      seen[seen.length] = [this, ...args];
      return Reflect.apply(original, this, args);
    };
  }
}
const bad = (value) => value !== null && typeof value === 'object' && ('ops' in value || 'lateScript' in value || 'primordials' in value);
export default {
  async fetch() {
    const through = Readable.from(['a', 'b']).pipe(new PassThrough());
    let text = '';
    for await (const chunk of through) text += chunk;
    text += await new Response(Readable.toWeb(Readable.from([Buffer.from('c')], { objectMode: false }))).text();
    if (text !== 'abc') return new Response(`lost: ${text}`);
    for (const values of seen) for (const value of values) if (bad(value)) return new Response('something of the platform');
    return new Response('held');
  },
};
