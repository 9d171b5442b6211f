// The same, with a timer that keeps it going.
// expect: start wall_limit_exceeded
// limits: wall_ms=100
setInterval(() => {}, 1);
await new Promise(() => {});
export default { fetch: () => new Response('x') };
