// Imports in phases that are not supported.
// expect: start worker_start_failed
import defer * as b from './b.js';
import source c from './b.js';
export default { fetch: () => new Response('x') };
// module: b.js
export default 1;
