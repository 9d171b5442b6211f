// Parses sixty objects of ten thousand members each.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const members = Array.from({ length: 1e4 }, (_, i) => `"k${i}":[${i}]`).join();
    JSON.parse(`{"a":[${Array(60).fill(`{${members}}`)}]}`);
  },
};
