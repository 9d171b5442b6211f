// Imports modules that await their own evaluation.
// expect: start worker_start_failed
await import('./worker.js');
export default { fetch: () => new Response('x') };
