// Tees branches repeatedly, and reads one of them while the others buffer everything.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: cpu_ms=2000
export default {
  async fetch() {
    let stream = new ReadableStream({ type: 'bytes', pull: (c) => c.enqueue(new Uint8Array(65536)) });
    const kept = [];
    for (let i = 0; i < 50; i++) {
      const [one, other] = stream.tee();
      kept.push(other);
      stream = one;
    }
    for await (const chunk of stream);
    return new Response('never');
  },
};
