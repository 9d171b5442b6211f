// Nests elements as deeply as a rewriter allows, and more deeply, with handlers of each element.
// expect: answer refused
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch() {
    const handlers = { element(element) { element.append('x').onEndTag(() => {}); } };
    for (const selector of ['a', 'a a a', '*:not(b) > a', 'a:first-of-type', 'b']) {
      const page = '<a>'.repeat(1e5);
      const error = await new HTMLRewriter().on(selector, handlers).transform(new Response(page)).text().catch((e) => e);
      if (!/nested too deeply|does not fit/.test(error.message)) throw new Error(`${selector}: ${error}`);
    }
    return new Response('refused');
  },
};
