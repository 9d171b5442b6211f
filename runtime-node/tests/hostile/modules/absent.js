// Imports modules that do not exist.
// expect: start worker_start_failed
// logs: nowhere.js
import './nowhere.js';
export default { fetch: () => new Response('there') };
