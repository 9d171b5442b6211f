// Applies the methods of regular expressions to a string of 2²⁵ characters, nearly all of which
// match.
// expect: answer refused
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    let text = 'x';
    for (let i = 0; i < 25; i++) text += text;
    for (const use of [
      () => /./g[Symbol.match](text),
      () => /./g[Symbol.replace](text, 'yy'),
      () => /./[Symbol.split](text),
      () => [..././g[Symbol.matchAll](text)],
      () => /y/[Symbol.search](text),
    ]) {
      try {
        use();
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
    return new Response('refused');
  },
};
