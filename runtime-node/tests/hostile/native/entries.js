// Lists and copies the properties of a long array, and creates an object from its entries.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// beyond: 30
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const value = new Array(4e6).fill(1);
    for (const use of [
      () => Object.fromEntries(Object.entries(value)),
      () => Object.keys(value),
      () => Object.assign([], value),
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
