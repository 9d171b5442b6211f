// Imports two thousand modules, each of which imports the next.
// expect: answer deep or start worker_start_failed
// chain: 2000
import './chain/1.js';
export default { fetch: () => new Response('deep') };
