// Awaits at its top level what never comes.
// expect: start worker_start_failed
await new Promise(() => {});
export default { fetch: () => new Response('x') };
