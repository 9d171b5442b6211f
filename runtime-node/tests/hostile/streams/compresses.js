// Compresses a large chunk: the compression must be interruptible between pieces.
// expect: cpu_limit_exceeded
// limits: cpu_ms=50 memory_mib=64
export default {
  async fetch() {
    const noise = new Uint8Array(24 << 20);
    for (let i = 0; i < noise.length; i += 65536) crypto.getRandomValues(noise.subarray(i, i + 65536));
    for (;;) {
      for (const format of ['gzip', 'brotli', 'deflate']) {
        const { readable, writable } = new CompressionStream(format);
        const writer = writable.getWriter();
        writer.write(noise);
        const reader = readable.getReader();
        while (!(await reader.read()).done) writer.close().catch(() => {});
      }
    }
  },
};
