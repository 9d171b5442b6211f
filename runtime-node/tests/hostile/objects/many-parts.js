// Creates Blobs of many small parts repeatedly.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const parts = new Array(100_000).fill('x');
    for (;;) new Blob(parts);
  },
};
