// Creates a long chain of signals.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    const { signal } = new AbortController();
    const controller = new AbortController();
    let last = controller.signal;
    for (let i = 0; i < 20000; i++) last = AbortSignal.any([last]);
    controller.abort();
    if (signal.aborted) return new Response('aborted');
    throw new RangeError('as it should be');
  },
};
