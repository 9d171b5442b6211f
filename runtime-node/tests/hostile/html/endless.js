// Rewrites a document that never ends, with handlers that return at once.
// expect: cpu_limit_exceeded
export default {
  async fetch() {
    const page = new TextEncoder().encode('<p class=a>x<!--y--></p>'.repeat(10000));
    const body = new ReadableStream({ pull: (controller) => controller.enqueue(page.slice()) });
    const handlers = { element: (p) => void p.setAttribute('b', 'c').onEndTag(() => {}), comments() {}, async text() {} };
    const out = new HTMLRewriter().on('.a', handlers).transform(new Response(body)).body;
    for await (const piece of out);
    return new Response('never');
  },
};
