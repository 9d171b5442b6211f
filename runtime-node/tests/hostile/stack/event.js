// Dispatches an event within its own listener.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    const target = new EventTarget();
    let depth = 0;
    target.addEventListener('x', () => {
      depth++;
      target.dispatchEvent(new Event('x'));
    });
    target.dispatchEvent(new Event('x'));
    if (depth < 100) return new Response('shallow');
    throw new RangeError('the dispatch is too deep');
  },
};
