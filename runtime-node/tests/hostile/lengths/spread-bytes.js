// Spreads typed arrays and long strings into arrays and calls, and collects them in rest
// parameters.
// expect: cpu_limit_exceeded or memory_limit_exceeded or worker_exception
// limits: memory_mib=64
// requests: 6
export default { fetch() { for (;;) [...new Uint8Array(2 ** 25)]; } };
// revision: a call
export default { fetch() { for (;;) Math.max(...new Uint8Array(2 ** 25)); } };
// revision: rest
export default { fetch() { for (;;) ((...rest) => rest.length)(...new Float64Array(2 ** 22)); } };
// revision: a string
export default { fetch() { for (;;) [...'a'.repeat(2 ** 25)]; } };
// revision: destructured
export default { fetch() { for (;;) { const [first, ...rest] = 'a'.repeat(2 ** 25); } } };
// revision: arguments of a constructor
export default { fetch() { for (;;) new Array(...new Int32Array(2 ** 24)); } };
