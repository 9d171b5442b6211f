// Detaches and shrinks the chunks of a document and of inserted content while they are read.
// expect: answer held
// limits: cpu_ms=500
export default {
  async fetch() {
    const chunks = [];
    const make = (text) => new ReadableStream({
      pull(controller) {
        const chunk = new Uint8Array(new ArrayBuffer(text.length, { maxByteLength: 1e6 }));
        chunk.set(new TextEncoder().encode(text));
        chunks.push(chunk);
        controller.enqueue(chunk);
        if (chunks.length % 3 === 0) controller.close();
      },
    });
    let left = 20;
    const element = (p) => {
      if (left-- <= 0) return;
      for (const chunk of chunks) {
        try { chunk.buffer.resize(left); } catch {}
        if (left % 2 === 0) try { structuredClone(chunk.buffer, { transfer: [chunk.buffer] }); } catch {}
      }
      p.before(make('<&>'.repeat(10000)));
    };
    const page = make('<p>x</p>'.repeat(10000));
    await new HTMLRewriter().on('p', { element }).transform(new Response(page)).text();
    return new Response('held');
  },
};
