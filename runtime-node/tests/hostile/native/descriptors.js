// Reads the property descriptors of a long array, and passes the array as descriptors.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const value = new Array(4e6).fill(1);
    for (const use of [
      () => Object.getOwnPropertyDescriptors(value),
      () => Object.create({}, value),
      () => Object.defineProperties({}, value),
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
