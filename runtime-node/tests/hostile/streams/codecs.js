// Opens as many codecs as possible, each of which has native memory.
// expect: memory_limit_exceeded or answer refused
// limits: cpu_ms=2000
export default {
  fetch() {
    const kept = [];
    try {
      for (;;) kept.push(new CompressionStream('gzip'), new DecompressionStream('brotli'));
    } catch {
      return new Response('refused');
    }
  },
};
