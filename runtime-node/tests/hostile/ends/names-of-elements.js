// Enumerates the names of a large array's elements, which V8 creates in one step without a check
// for termination.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: memory_mib=128
// beyond: 60000
export default {
  fetch() {
    for (const key in new Uint8Array(2 ** 26)) return new Response(key);
  },
};
