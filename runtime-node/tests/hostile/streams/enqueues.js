// Enqueues without end.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: cpu_ms=2000
export default {
  async fetch() {
    new ReadableStream({
      start(c) {
        for (;;) c.enqueue({});
      },
    });
    return new Response('never');
  },
};
