// Rewrites tokens of a megabyte, and tokens that are longer than a rewriter allows.
// expect: answer held
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch() {
    const long = 'x'.repeat(1 << 20);
    let length = 0;
    const rewriter = new HTMLRewriter().on('*', {
      element: (element) => void (length += element.setAttribute('a', 'b').getAttribute('long').length),
      comments: (comment) => void (length += comment.text.length),
    });
    const page = await rewriter.transform(new Response(`<p long=${long}><!--${long}-->`)).text();
    if (length !== 2 << 20 || page !== `<p long=${long} a="b"><!--${long}-->`) throw new Error('changed');
    for (const start of ['<a long="', '<a ', '<a', '<!--', '</a', '<!doctype ', '<a b c d e=f', `<a ${'b '.repeat(1e5)}`]) {
      const end = await rewriter.transform(new Response(start + 'x'.repeat(4 << 20))).text().then(() => 'end', (error) => error.message);
      if (end !== 'end' && !/too long/.test(end)) throw new Error(`${start}: ${end}`);
    }
    return new Response('held');
  },
};
