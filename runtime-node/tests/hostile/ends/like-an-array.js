// Makes an array of numbers of what is like an array, of each place of which V8 keeps a handle until it is done.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: memory_mib=128
// beyond: 60000
export default { fetch: () => new Response(String(new Uint8Array({ length: 2 ** 27 - 1024 }).length)) };
