// Replaces one match with a template that is too long to be scanned in one step.
// expect: answer held
// limits: cpu_ms=5000 memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const long = '$&'.repeat(2 ** 24);
    for (const replace of [
      () => 'a'.replace('a', long), () => 'a'.replaceAll('a', long), () => 'a'.replace(/a/, long), () => 'a'.replace(/a/g, long),
      () => /a/[Symbol.replace]('a', long), () => 'a'.replace('a', { toString: () => long }),
      () => 'a'.replace(['a'], { toString: () => long }), () => 'a'.replaceAll(['a'], { toString: () => long }),
    ]) {
      try {
        replace();
        return new Response(`${replace} went through`);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
    return new Response('held');
  },
};
