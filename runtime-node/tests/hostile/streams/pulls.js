// Pipes an endless source into a sink that accepts everything.
// expect: cpu_limit_exceeded
export default {
  async fetch() {
    await new ReadableStream({ pull: (c) => c.enqueue(1) }).pipeTo(new WritableStream());
    return new Response('never');
  },
};
