// Calls the methods of arrays that iterate over elements on objects that claim billions of elements
// or more.
// expect: answer held
// limits: cpu_ms=2000
export default {
  async fetch(request, env, ctx) {
    const lengths = [2 ** 53 - 1, 2 ** 32 - 1, Infinity, { valueOf: () => 2 ** 53 - 1 }];
    const names = ['copyWithin', 'every', 'fill', 'filter', 'find', 'findIndex', 'findLast', 'findLastIndex', 'flat',
      'flatMap', 'forEach', 'includes', 'indexOf', 'join', 'lastIndexOf', 'map', 'reduce', 'reduceRight', 'reverse',
      'shift', 'slice', 'some', 'sort', 'splice', 'toLocaleString', 'toReversed', 'toSorted', 'toSpliced', 'unshift', 'with'];
    for (const name of names) {
      for (const length of lengths) {
        for (const receiver of [{ length }, new Proxy({ length }, {}), new Proxy(new Array(2 ** 32 - 1), {})]) {
          try {
            Array.prototype[name].call(receiver, Boolean, 0);
            return new Response(`${name} came to an end`);
          } catch (error) {
            if (!(error instanceof RangeError)) throw error;
          }
        }
      }
    }
    return new Response('held');
  },
};
