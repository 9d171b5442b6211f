// Compiles source text of many small regular expressions, each of which matches thousands of
// strings.
// expect: answer refused
// limits: memory_mib=128 cpu_ms=5000 wall_ms=20000
// beyond: 30
export default {
  async fetch(request, env, ctx) {
    for (const pattern of ['/\\p{RGI_Emoji}/v;', '/\\p{RGI_Emoji}/iv;', '/\\p{L}/iv;']) {
      for (const compile of [eval, Function]) {
        try {
          compile(pattern.repeat(4e4));
          return new Response(`${pattern} was compiled`);
        } catch (error) {
          if (!(error instanceof EvalError)) throw error;
        }
      }
    }
    return new Response(/\p{RGI_Emoji}/v.test('\u2764\ufe0f') && eval('/\\p{L}/u').test('a') ? 'refused' : 'lost');
  },
};
