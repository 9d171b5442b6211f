// A source that is pulled without end, into a sink that takes everything.
// expect: cpu_limit_exceeded
export default {
  async fetch() {
    await new ReadableStream({ pull: (c) => c.enqueue(1) }).pipeTo(new WritableStream());
    return new Response('never');
  },
};
