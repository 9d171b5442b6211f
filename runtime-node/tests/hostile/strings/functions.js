// Passes the longest string to string functions, some of which would end the process.
// expect: answer held
// limits: cpu_ms=1000
export default {
  async fetch(request, env, ctx) {
    const long = 'x'.repeat(2 ** 26 - 24);
    const string = String.prototype;
    for (const use of [
      () => long.split(''), () => long.replaceAll('x', 'yy'), () => long.replace(/x/g, 'yy'), () => long.match(/x/g),
      () => long.normalize('NFKD'), () => long.toLocaleUpperCase('tr'), () => long.localeCompare('y'), () => long.search(/y/),
      () => string.split.call({ toString: () => long }, ''), () => string.matchAll.call([long], /x/g),
    ]) {
      try {
        use();
        return new Response(`${use} went through`);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
    return new Response('held');
  },
};
