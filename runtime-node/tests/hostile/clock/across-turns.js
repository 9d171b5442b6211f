// Checks that every clock advances in whole milliseconds between turns.
// expect: answer held
// limits: cpu_ms=1000
export default {
  async fetch(request, env, ctx) {
    const wait = () => new Promise((resolve) => setTimeout(resolve, 1));
    const start = Date.now();
    for (let i = 0; i < 20; i++) {
      await wait();
      const readings = [Date.now(), performance.now(), Temporal.Now.instant().epochMilliseconds, new Event('x').timeStamp];
      for (const reading of readings) if (reading % 1 !== 0) return new Response(`${reading} is too fine`);
      if (Temporal.Now.instant().epochNanoseconds % 1000000n !== 0n) return new Response('nanoseconds');
    }
    return new Response(Date.now() > start ? 'held' : 'stands still');
  },
};
