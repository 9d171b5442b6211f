// Starts a hundred thousand fetches and awaits none of them.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer begun
// limits: cpu_ms=200
export default {
  async fetch() {
    for (let i = 0; i < 100_000; i++) fetch(`http://10.0.0.1/${i}`).catch(() => {});
    return new Response('begun');
  },
};
