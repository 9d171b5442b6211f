// Asks for the canonical names of a list of locales that is as long as a list can be.
// expect: cpu_limit_exceeded or memory_limit_exceeded or worker_exception
export default { fetch() { for (;;) Intl.getCanonicalLocales({ length: 2 ** 32 - 1 }); } };
