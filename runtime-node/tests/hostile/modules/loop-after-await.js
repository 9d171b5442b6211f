// Imports modules that await each other and then loop.
// expect: start cpu_limit_exceeded
// limits: startup_ms=50
import './b.js';
await import('./c.js');
export default { fetch: () => new Response('x') };
// module: b.js
await null;
export const x = await Promise.all([import('./worker.js'), import('./c.js')].map((p) => Promise.race([p, 1])));
// module: c.js
await null;
Promise.resolve().then(() => {
  for (;;);
});
for (;;);
