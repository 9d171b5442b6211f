// Splits a long string into characters, lists its matches, and replaces them.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// beyond: 30
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const text = 'ab'.repeat(2 ** 24);
    for (const use of [
      () => text.split(''),
      () => text.split(/(?:)/),
      () => text.replaceAll('a', 'bb'),
      () => text.match(/./g),
      () => text.replace(/b/g, 'cc'),
      () => text.slice(2 ** 23).split(''),
      () => text.slice(2 ** 24).match(/./g),
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
