// Normalizes a long string, changes its case, and compares it.
// expect: answer refused
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    let text = '\u20acx';
    for (let i = 0; i < 24; i++) text += text;
    for (const use of [
      () => text.normalize(),
      () => text.toUpperCase(),
      () => text.toLocaleLowerCase('tr'),
      () => text.localeCompare('x'),
      () => text.toWellFormed(),
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
