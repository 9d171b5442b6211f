// Compiles a deeply nested regular expression.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    for (const open of ['(', '(?:', '(?=', '(?<a>', '[[']) {
      try {
        new RegExp(open.repeat(1e5), 'v');
      } catch (error) {
        if (!(error instanceof SyntaxError) && !(error instanceof RangeError)) return new Response(String(error));
      }
    }
    throw new RangeError('as it should be');
  },
};
