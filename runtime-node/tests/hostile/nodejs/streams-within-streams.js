// Creates a chain of ten thousand streams, each of which ends the next. The nested calls may exceed
// the stack, as in Node.js.
// expect: worker_exception or cpu_limit_exceeded or memory_limit_exceeded or answer passed on
// flags: nodejs_compat
// limits: cpu_ms=2000
import { PassThrough } from 'node:stream';
export default {
  async fetch() {
    const first = new PassThrough();
    let last = first;
    for (let i = 0; i < 10_000; i++) last = last.pipe(new PassThrough());
    first.end('passed on');
    let text = '';
    for await (const chunk of last) text += chunk;
    return new Response(text);
  },
};
