// Logs deeply nested objects, and errors with long chains of causes.
// expect: answer logged
// limits: cpu_ms=5000
export default {
  async fetch(request, env, ctx) {
    let nested = [], cause = new Error('first');
    for (let i = 0; i < 1e4; i++) {
      nested = i % 2 ? [nested] : new Map([[nested, { nested }]]);
      cause = new AggregateError([cause], 'next', { cause });
    }
    const cycle = {};
    cycle.cycle = cycle;
    cycle[Symbol.toStringTag] = cycle;
    console.log(nested, cause, cycle);
    const deep = () => {
      console.log(cycle);
      deep();
    };
    try {
      deep();
    } catch {}
    return new Response('logged');
  },
};
