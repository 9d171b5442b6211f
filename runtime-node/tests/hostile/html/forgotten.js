// Abandons rewriters in the middle of their documents. Their memory must be freed.
// expect: answer forgotten
// limits: cpu_ms=5000 wall_ms=10000
export default {
  async fetch() {
    const page = new TextEncoder().encode(`<p>x<a b="${'c'.repeat(1 << 16)}`);
    for (let i = 0; i < 500; i++) {
      const body = new ReadableStream({ start: (controller) => controller.enqueue(page.slice()) });
      const reader = new HTMLRewriter().on('p', { element() {} }).transform(new Response(body)).body.getReader();
      await reader.read();
      if (i % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return new Response('forgotten');
  },
};
