// Uses rewriters, tokens and bodies within handlers of the same document, and within conversions of
// arguments.
// expect: answer held
// limits: cpu_ms=500
export default {
  async fetch() {
    const seen = [];
    const attempt = async (f) => {
      try {
        seen.push(typeof (await f()));
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        seen.push(error.message);
      }
    };
    // Cancels the body while a token's argument is converted.
    let reader;
    const cancels = (value) => ({ toString() { reader.cancel(); return value; } });
    for (const use of [
      (p) => p.before(cancels('x')), (p) => p.setAttribute(cancels('a'), 'b'), (p) => { p.tagName = cancels('q'); }, (p) => p.append('x', { get html() { reader.cancel(); } }),
      (p) => p.getAttribute(cancels('a')), (p) => p.onEndTag((end) => { end.name = cancels('q'); }),
    ]) {
      reader = new HTMLRewriter().on('p', { element: use }).transform(new Response('<p>x</p>')).body.getReader();
      await attempt(() => reader.read());
    }
    // Reads the body within its own handler.
    reader = new HTMLRewriter().on('p', { element: () => void reader.read().catch(() => {}) }).transform(new Response('<p>x</p>')).body.getReader();
    await attempt(() => reader.read());
    // Rewrites within a handler, and inserts the result.
    const inner = () => new HTMLRewriter().on('i', { element: (i) => void i.append('!') }).transform(new Response('<i></i>'));
    const page = await new HTMLRewriter().on('p', { element: (p) => void p.append(inner(), { html: true }) }).transform(new Response('<p></p>')).text();
    if (page !== '<p><i>!</i></p>') throw new Error(page);
    // Inserts the body into itself.
    const self = new HTMLRewriter().on('p', { element: (p) => void p.append(self) }).transform(new Response('<p></p>'));
    await attempt(() => self.text());
    // Uses the methods of one kind of token with another, in another encoding.
    const latin = new Response(new Uint8Array([0x3c, 0x70, 0x20, 0xe4, 0x3e, 0x3c, 0x21, 0x2d, 0x2d, 0xe4, 0x2d, 0x2d, 0x3e, 0xe4, 0x3c, 0x2f, 0x70, 0x3e]));
    const kinds = [];
    const use = (token) => {
      kinds.push(Object.getPrototypeOf(token));
      for (const kind of kinds) {
        for (let prototype = kind; prototype !== Object.prototype; prototype = Object.getPrototypeOf(prototype)) {
          for (const key of Object.keys(prototype)) {
            const { get, set, value } = Object.getOwnPropertyDescriptor(prototype, key);
            for (const f of [get, set, value]) try { f?.call(token, 'a', () => {}); } catch (error) { if (!(error instanceof TypeError)) throw error; }
          }
        }
      }
    };
    await new HTMLRewriter().on('p', { element: (p) => { use(p); p.onEndTag(use); }, comments: use, text: use }).onDocument({ doctype: use, end: use }).transform(latin).text();
    // A thenable that is resolved many times, and getters that throw.
    const then = (resolve, reject) => { resolve(); resolve(); reject(); };
    await new HTMLRewriter().on('p', { element: () => ({ then }) }).transform(new Response('<p>')).text();
    await attempt(() => new HTMLRewriter().on('p', { element: () => ({ get then() { throw new TypeError('getter'); } }) }).transform(new Response('<p>')).text());
    return new Response('held');
  },
};
