// Creates a typed array from an array-like object; V8 keeps a handle for each element until the
// constructor returns.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: memory_mib=128
// beyond: 60000
export default { fetch: () => new Response(String(new Uint8Array({ length: 2 ** 27 - 1024 }).length)) };
