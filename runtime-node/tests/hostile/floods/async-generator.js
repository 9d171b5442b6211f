// Iterates over an endless async generator.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    async function* endless() {
      for (;;) yield Promise.resolve(1);
    }
    for await (const x of endless());
  },
};
