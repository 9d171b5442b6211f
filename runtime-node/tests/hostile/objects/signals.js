// Derives a chain of signals from a signal that outlives the request.
// expect: answer held
// limits: cpu_ms=5000 wall_ms=10000 memory_mib=24
// requests: 4
const { signal } = new AbortController();
export default {
  async fetch(request, env, ctx) {
    let last = signal;
    for (let i = 0; i < 10_000; i++) {
      last = AbortSignal.any([signal, last]);
      new Request('https://host/', { signal: last });
      if (i % 1000 === 0) await new Promise((resolve) => setTimeout(resolve));
    }
    return new Response('held');
  },
};
