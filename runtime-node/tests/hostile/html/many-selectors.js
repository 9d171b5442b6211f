// Registers thousands of selectors, each of which is compared with each element.
// expect: cpu_limit_exceeded
export default {
  async fetch() {
    const sets = [
      Array.from({ length: 4096 }, () => '*'), Array.from({ length: 2048 }, (_, i) => `.a${i}`), Array.from({ length: 2000 }, (_, i) => `[a${i}]`),
      Array.from({ length: 1000 }, (_, i) => `:not(.a${i}) a`), Array.from({ length: 200 }, (_, i) => `${':not([a])'.repeat(9)}.b${i}`),
    ];
    const page = `<a class="${'b '.repeat(1000)}"><i>`.repeat(20);
    for (;;) {
      for (const selectors of sets) {
        const rewriter = new HTMLRewriter();
        for (const selector of selectors) rewriter.on(selector, { element() {} });
        try {
          await rewriter.transform(new Response(page)).text();
        } catch (error) {
          if (!/too complex|too long|nested too deeply/.test(error.message)) throw error;
        }
      }
    }
  },
};
