// Replaces every function that a transferred stream could call.
// expect: answer 1,2
export default {
  async fetch() {
    const stop = () => { throw new Error('a replaced function was called'); };
    const source = new ReadableStream({ start(c) { c.enqueue(1); c.enqueue(2); c.close(); } });
    const moved = structuredClone(source, { transfer: [source] });
    const reader = moved.getReader();
    for (const object of [TransformStream, ReadableStream, WritableStream, TransformStreamDefaultController, MessagePort]) {
      for (const key of Object.getOwnPropertyNames(object.prototype)) {
        if (key !== 'constructor') Object.defineProperty(object.prototype, key, { get: stop, configurable: true });
      }
    }
    globalThis.structuredClone = stop;
    Object.defineProperty(Object.prototype, 'transform', { get: stop, set: stop, configurable: true });
    const first = await reader.read();
    const second = await reader.read();
    const { done } = await reader.read();
    return new Response(`${first.value},${second.value}${done ? '' : '!'}`);
  },
};
