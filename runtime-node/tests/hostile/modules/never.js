// Awaits, at the top level, a promise that never settles.
// expect: start worker_start_failed
await new Promise(() => {});
export default { fetch: () => new Response('x') };
