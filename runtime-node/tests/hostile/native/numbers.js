// Lists and formats the elements of a long typed array.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const value = new Uint8Array(2 ** 26);
    for (const use of [
      () => Object.keys(value),
      () => Reflect.ownKeys(value),
      () => Object.entries(value),
      () => Object.getOwnPropertyDescriptors(value),
      () => JSON.stringify(value),
      () => value.join(),
      () => String(value),
      () => value.toLocaleString(),
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
