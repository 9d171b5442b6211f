// Imports modules with names that are as long as possible or malformed.
// expect: answer held
// limits: cpu_ms=1000
export default {
  async fetch(request, env, ctx) {
    for (const name of ['x'.repeat(2 ** 26 - 24), './'.repeat(2 ** 20), '\u{10FFFF}'.repeat(2 ** 20), '\ud800', '\0', '../'.repeat(1e5)]) {
      try {
        await import(name);
        return new Response('imported');
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    }
    return new Response('held');
  },
};
