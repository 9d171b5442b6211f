// Pads, repeats and joins strings beyond the maximum length.
// expect: answer held
// limits: cpu_ms=1000
// patch: lengths
export default {
  async fetch(request, env, ctx) {
    const longest = 2 ** 26 - 24; // The maximum length with the patch `lengths`.
    for (const make of [
      () => 'x'.padEnd(2 ** 26), () => 'x'.padStart(2 ** 31), () => 'x'.repeat(2 ** 26), () => Array(2 ** 20).join('x'.repeat(2 ** 10)),
      () => 'x'.repeat(longest) + 'y', () => `${'x'.repeat(longest)}${'x'.repeat(longest)}`, () => 'x'.repeat(longest).concat('y'),
      () => String.raw({ raw: ['x'.repeat(longest), 'y'] }, 'z'),
    ]) {
      try {
        make();
        return new Response(`${make} went through`);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
    return new Response('held');
  },
};
