// Imports a chain of twenty thousand modules.
// expect: answer deep or start worker_start_failed
// chain: 20000
// limits: startup_ms=10000 memory_mib=128
import './chain/1.js';
export default { fetch: () => new Response('deep') };
