// Starts and drops more digests than memory can hold at the same time.
// expect: answer done or memory_limit_exceeded or cpu_limit_exceeded
// limits: cpu_ms=2000 memory_mib=32
export default {
  async fetch() {
    for (let i = 0; i < 20_000; i++) new crypto.DigestStream('SHA-512').getWriter().write(new Uint8Array(64));
    return new Response('done');
  },
};
