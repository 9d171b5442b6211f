// Counts the elements of each type in a document with an endless number of types.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: cpu_ms=500
export default {
  async fetch() {
    let i = 0;
    const body = new ReadableStream({
      pull(controller) {
        let page = '';
        for (let j = 0; j < 1000; j++) page += `<x${i}></x${i++}>`;
        controller.enqueue(new TextEncoder().encode(page));
      },
    });
    const out = new HTMLRewriter().on('x1:first-of-type, x2:nth-of-type(2)', { element() {} }).transform(new Response(body)).body;
    for await (const piece of out);
    return new Response('never');
  },
};
