// Requests the canonical names of a list of locales of the largest length.
// expect: cpu_limit_exceeded or memory_limit_exceeded or worker_exception
export default { fetch() { for (;;) Intl.getCanonicalLocales({ length: 2 ** 32 - 1 }); } };
