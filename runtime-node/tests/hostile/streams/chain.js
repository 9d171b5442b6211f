// Creates, fills and cancels a long chain of transforms.
// expect: answer canceled or cpu_limit_exceeded or memory_limit_exceeded
// limits: cpu_ms=500
export default {
  async fetch() {
    let stream = new ReadableStream({ pull: (c) => c.enqueue('x') });
    for (let i = 0; i < 2000; i++) stream = stream.pipeThrough(new TransformStream());
    const reader = stream.getReader();
    await reader.read();
    await reader.cancel('enough');
    return new Response('canceled');
  },
};
