// Returns, from a handler, a promise that never settles.
// expect: no_response
export default {
  async fetch() {
    const response = new HTMLRewriter().on('p', { element: () => new Promise(() => {}) }).transform(new Response('<p>'));
    return new Response(await response.text());
  },
};
