// Opens as many rewriters as possible, each of which holds an unfinished token.
// expect: memory_limit_exceeded or answer refused
// limits: cpu_ms=2000
export default {
  async fetch() {
    const kept = [];
    const page = new TextEncoder().encode(`<p>x<a b="${'c'.repeat(1 << 16)}`);
    try {
      for (;;) {
        const body = new ReadableStream({ start: (controller) => controller.enqueue(page.slice()) });
        const reader = new HTMLRewriter().on('p', { element() {} }).transform(new Response(body)).body.getReader();
        kept.push(reader, await reader.read(), reader.read());
      }
    } catch {
      return new Response('refused');
    }
  },
};
