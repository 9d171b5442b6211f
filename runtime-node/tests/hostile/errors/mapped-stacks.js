// Formats stacks of values that are not errors or frames, of deep recursion and of huge names.
// expect: answer held
// limits: cpu_ms=2000
const { prepareStackTrace } = Error;
export default {
  async fetch() {
    if (typeof prepareStackTrace !== 'function') return new Response('no source map');
    const errors = [null, 1, {}, { get name() { throw 1; } }, new Proxy({}, { get() { throw 2; } }), new Error('x')];
    const frames = [null, [], [1], [{}], { length: 1 }, { length: 3, 0: { toString: () => 'a (worker.js:1:1)' } }, new Proxy([], {}), 'abc'];
    for (const error of errors) {
      for (const frame of frames) {
        try {
          prepareStackTrace(error, frame);
        } catch {}
      }
    }
    Error.stackTraceLimit = Infinity;
    const named = Object.defineProperty(() => new Error('x').stack, 'name', { value: 'y'.repeat(2 ** 20) });
    if (!named().includes('mapped.ts:1:1')) return new Response('not mapped');
    const recurse = (n) => (n === 0 ? new Error('deep').stack : recurse(n - 1));
    if (recurse(1000).split('mapped.ts:1:1').length < 1000) return new Response('not deep');
    const forever = () => {
      try {
        return forever();
      } catch (error) {
        return error.stack;
      }
    };
    forever();
    Object.getPrototypeOf(Error.prototype).toString = () => { throw 3; };
    Error.prototype.toString = () => { throw 4; };
    return new Response(new Error('z').stack.startsWith('Error: z\n    at ') ? 'held' : 'other');
  },
};
// module: worker.js.map
{"version":3,"sources":["mapped.ts"],"names":[],"mappings":"AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA;AAAA"}
