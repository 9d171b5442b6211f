// Logs the longest string in every way.
// expect: answer logged
// limits: cpu_ms=1000 memory_mib=64
// lines: 60
export default {
  async fetch(request, env, ctx) {
    const long = 'x'.repeat(2 ** 26 - 24);
    for (const method of ['log', 'error', 'trace', 'table', 'dir', 'assert', 'count', 'time', 'timeEnd', 'group']) console[method](long);
    console.log('%s %o', long, [long], { long }, new String(long));
    console.table([long, { long }]);
    reportError(long);
    Promise.reject(long);
    return new Response('logged');
  },
};
