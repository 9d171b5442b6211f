// Compiles deeply nested source text.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    for (const open of ['(', '[', '{a:', 'x=>', '`${', 'if(1)', 'function f(){', 'class A extends ', '!', 'new ', 'async()=>']) {
      try {
        new Function(open.repeat(50000));
      } catch (error) {
        if (!(error instanceof RangeError) && !(error instanceof SyntaxError)) return new Response(String(error));
      }
    }
    throw new RangeError('as it should be');
  },
};
