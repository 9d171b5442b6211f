// Aborts fetches that it has just started, some of them one by one and the others together.
// expect: answer given up
// limits: cpu_ms=2000
export default {
  async fetch() {
    const all = new AbortController();
    const ends = [];
    for (let i = 0; i < 2_000; i++) {
      const one = new AbortController();
      const signal = AbortSignal.any([one.signal, all.signal]);
      ends.push(fetch('http://10.0.0.1/', { signal }).catch((reason) => reason));
      if (i % 2) one.abort(1);
    }
    all.abort(2);
    const reasons = await Promise.all(ends);
    return new Response(reasons.every((reason) => reason === 1 || reason === 2) ? 'given up' : `${reasons[0]}`);
  },
};
