// Loops in a handler.
// expect: cpu_limit_exceeded
export default {
  async fetch() {
    const response = new HTMLRewriter().on('p', { element() { for (;;); } }).transform(new Response('<p>'));
    return new Response(await response.text());
  },
};
