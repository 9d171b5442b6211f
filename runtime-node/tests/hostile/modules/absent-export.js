// Imports exports that do not exist, in a cycle.
// expect: start worker_start_failed
import { nothing } from './b.js';
export default { fetch: () => new Response(nothing) };
// module: b.js
export { nothing } from './c.js';
// module: c.js
export { nothing } from './b.js';
