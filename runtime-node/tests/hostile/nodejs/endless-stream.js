// Pipes an endless stream into a sink that accepts everything, without leaving the microtask queue.
// expect: cpu_limit_exceeded
// flags: nodejs_compat
import { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
export default {
  async fetch() {
    const source = new Readable({ read() { this.push('x'); } });
    await pipeline(source, new Writable({ write(chunk, encoding, callback) { callback(); } }));
    return new Response('the end');
  },
};
