// A stream that is transferred again and again, each time behind one more that passes on what the last one has.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: cpu_ms=3000 memory_mib=32
export default {
  async fetch() {
    let stream = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1024)) });
    for (;;) stream = structuredClone(stream, { transfer: [stream] });
  },
};
