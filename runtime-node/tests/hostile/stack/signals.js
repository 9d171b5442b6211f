// Creates a long chain of signals.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    const controller = new AbortController();
    let last = controller.signal;
    for (let i = 0; i < 20000; i++) last = AbortSignal.any([last]);
    controller.abort();
    if (!last.aborted) return new Response('not aborted');
    throw new RangeError('as it should be');
  },
};
