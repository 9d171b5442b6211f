// Reads a source within its own pull.
// expect: cpu_limit_exceeded or answer deep
export default {
  async fetch() {
    let reader;
    const stream = new ReadableStream({
      pull(c) {
        c.enqueue(1);
        reader.read();
        reader.read();
      },
    }, { highWaterMark: 0 });
    reader = stream.getReader();
    try {
      for (;;) await reader.read();
    } catch {
      return new Response('deep');
    }
  },
};
