// Converts a large array within another to JSON; V8 creates the names of all its elements in one
// step.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: memory_mib=128
// beyond: 60000
export default { fetch: () => new Response(JSON.stringify([new Uint8Array(2 ** 26)])) };
