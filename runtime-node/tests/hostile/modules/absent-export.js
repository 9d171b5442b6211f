// Imports an export that does not exist, because two modules only export it from each other.
// expect: start worker_start_failed
import { nothing } from './b.js';
export default { fetch: () => new Response(nothing) };
// module: b.js
export { nothing } from './c.js';
// module: c.js
export { nothing } from './b.js';
