// Tries to measure the duration of a loop by counting in timers and microtasks.
// expect: answer held
// limits: cpu_ms=5000
export default {
  async fetch(request, env, ctx) {
    // Without shared memory, nothing can count during the loop: no other code of the isolate runs
    // during a turn.
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    Promise.resolve().then(() => ticks++);
    const before = ticks;
    for (let i = 0; i < 2e7; i++);
    const after = ticks;
    clearInterval(timer);
    return new Response(before === after ? 'held' : 'counted');
  },
};
