// Transfers a stream repeatedly, which adds a stream to the chain each time.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: cpu_ms=3000 memory_mib=32
export default {
  async fetch() {
    let stream = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1024)) });
    for (;;) stream = structuredClone(stream, { transfer: [stream] });
  },
};
