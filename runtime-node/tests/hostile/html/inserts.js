// Inserts content without end into one token, and keeps content for end tags that never come.
// expect: memory_limit_exceeded or answer refused
// limits: cpu_ms=5000
export default {
  async fetch() {
    const content = '<&>'.repeat(1 << 14);
    const inserts = [
      (p) => { for (;;) p.before(content); }, (p) => { for (;;) p.append(content); }, (p) => { for (;;) p.after(''); },
      (p) => { for (let i = 0; ; i++) p.setAttribute(`a${i}`, content); }, (p) => p.before('&'.repeat(1 << 25)), (p) => p.replace('\u20ac'.repeat(1 << 25)),
      (p) => { p.tagName = 'a'.repeat(1 << 25); },
    ];
    let refused = 0;
    for (const element of inserts) {
      try {
        await new HTMLRewriter().on('p', { element }).transform(new Response('<p>x</p>')).text();
      } catch (error) {
        if (!/memory/.test(error.message)) throw error;
        refused++;
      }
    }
    const kept = new HTMLRewriter().on('p', { element: (p) => void p.append(content) });
    await kept.transform(new Response('<p>'.repeat(4000))).text().catch(() => refused++);
    return new Response(refused === inserts.length + 1 ? 'refused' : `${refused}`);
  },
};
