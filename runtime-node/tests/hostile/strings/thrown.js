// Throws the longest string.
// expect: worker_exception
export default {
  async fetch(request, env, ctx) {
    setTimeout(() => {
      throw 'x'.repeat(2 ** 26 - 24);
    }, 0);
    await new Promise((resolve) => setTimeout(resolve, 5));
    throw 'x'.repeat(2 ** 26 - 24);
  },
};
