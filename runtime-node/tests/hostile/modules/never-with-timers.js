// Awaits, at the top level, a promise that never settles, while an interval is set.
// expect: start wall_limit_exceeded
// limits: wall_ms=100
setInterval(() => {}, 1);
await new Promise(() => {});
export default { fetch: () => new Response('x') };
