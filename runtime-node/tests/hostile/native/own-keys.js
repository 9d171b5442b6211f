// Lists the properties of the String object of a long string.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const value = Object('x'.repeat(2 ** 24));
    for (const use of [
      () => Reflect.ownKeys(value),
      () => Object.keys(value),
      () => Object.values(value),
      () => Object.entries(value),
      () => Object.getOwnPropertyNames(value),
      () => Object.assign({}, value),
    ]) {
      try {
        use();
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
    return new Response('refused');
  },
};
