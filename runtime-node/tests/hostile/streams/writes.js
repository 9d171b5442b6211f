// Writes without end to a sink that never completes a write.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: cpu_ms=2000
export default {
  async fetch() {
    const writer = new WritableStream({ write: () => new Promise(() => {}) }).getWriter();
    for (;;) writer.write(new Uint8Array(1024));
  },
};
