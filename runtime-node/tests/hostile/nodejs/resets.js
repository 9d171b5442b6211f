// Checks that each invocation of a Worker that resets has modules of its own.
// expect: answer 1 true
// flags: nodejs_compat
// state: Reset
// requests: 3
import events from 'node:events';
events.count = (events.count ?? 0) + 1;
export default { fetch: async () => new Response(`${events.count} ${(await import('node:buffer')).Buffer === Buffer}`) };
