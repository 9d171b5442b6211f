// Replaces the constructor of promises, which every reaction looks up.
// expect: answer well
export default {
  async fetch() {
    const { constructor } = Promise.prototype;
    const evils = [
      { get: () => { throw new Error('looked'); } },
      { value: { [Symbol.species]: function (executor) { executor(() => {}, () => {}); return {}; } } },
      { value: { [Symbol.species]: () => { throw new Error('species'); } } },
      { value: 1 },
    ];
    for (const evil of evils) {
      Object.defineProperty(Promise.prototype, 'constructor', { configurable: true, ...evil });
      try {
        const { readable, writable } = new TransformStream({ async transform(x, c) { c.enqueue(x); } });
        const writer = writable.getWriter();
        writer.write(1);
        readable.getReader().read();
        writer.close();
        const [one, other] = new ReadableStream({ async pull(c) { c.enqueue(1); c.close(); } }).tee();
        one.cancel();
        other.pipeTo(new WritableStream({ async write() {} }));
        new ReadableStream({ start: () => Promise.reject(1) }).cancel();
      } catch {
      } finally {
        Object.defineProperty(Promise.prototype, 'constructor', { configurable: true, writable: true, value: constructor });
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return new Response('well');
  },
};
