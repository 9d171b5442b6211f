// Requests the canonical names of a list that claims 2³² − 1 locales.
// expect: cpu_limit_exceeded or memory_limit_exceeded or worker_exception
export default { fetch() { for (;;) Intl.getCanonicalLocales({ length: 2 ** 32 - 1 }); } };
