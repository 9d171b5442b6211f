// Parses selectors that are long, deep, or malformed.
// expect: answer held
// limits: cpu_ms=2000
export default {
  fetch() {
    const rewriter = new HTMLRewriter();
    const texts = [
      'a'.repeat(4096), 'a'.repeat(1e6), 'a,'.repeat(2047) + 'a', 'a '.repeat(2048), 'a>'.repeat(2047) + 'a', ':not('.repeat(64), ':not('.repeat(64) + 'a' + ')'.repeat(64),
      ':not('.repeat(800), '('.repeat(4096), '['.repeat(4096), '{'.repeat(4096), '"'.repeat(4096), '\\'.repeat(4096), '/*'.repeat(2048), '.a'.repeat(2048), '#'.repeat(4096),
      ':nth-child(' + '9'.repeat(4000) + ')', ':nth-child(2147483647n+2147483647)', ':nth-of-type(-2147483648n-2147483648)', '[a=' + '"x'.repeat(2000), '*|*', '|a', '&', ':is('.repeat(60),
      ':has('.repeat(60), '::slotted(a)', ':host(a)', '\u{1f468}\u200d'.repeat(500), '\0'.repeat(100), ':not(' + 'a,'.repeat(2000) + 'b)',
    ];
    for (const text of texts) {
      try {
        rewriter.on(text, { element() {} });
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    }
    return new Response('held');
  },
};
