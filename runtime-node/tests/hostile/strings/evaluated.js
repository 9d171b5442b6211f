// Compiles sources of many megabytes. They are refused, and short sources still compile.
// expect: answer held
// limits: cpu_ms=1000
export default {
  async fetch(request, env, ctx) {
    const { constructor: AsyncFunction } = async () => {};
    const { constructor: GeneratorFunction } = function* () {};
    for (const text of ['x'.repeat(2 ** 25), `[${'0,'.repeat(2 ** 22)}]`, `1${'+1'.repeat(2 ** 20)}`]) {
      for (const compile of [eval, (0, eval), Function, AsyncFunction, GeneratorFunction]) {
        try {
          compile(text);
          return new Response('compiled');
        } catch (error) {
          if (!(error instanceof EvalError) && !(error instanceof SyntaxError)) throw error;
        }
      }
    }
    return new Response(eval('"he"') + new Function('return "ld"')());
  },
};
