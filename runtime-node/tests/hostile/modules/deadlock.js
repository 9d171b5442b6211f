// Awaits its own import at the top level.
// expect: start worker_start_failed
await import('./worker.js');
export default { fetch: () => new Response('x') };
