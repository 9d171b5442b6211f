// Imports JSON with half a million levels.
// expect: answer held or start worker_start_failed or start memory_limit_exceeded
// limits: startup_ms=4000 memory_mib=64 cpu_ms=1000
// beyond: 100
// deep: 500000
import deep from './deep.json';
let levels = 0;
for (let list = deep; list; list = list[0]) levels++;
export default { fetch: () => new Response(levels === 500000 ? 'held' : `${levels}`) };
