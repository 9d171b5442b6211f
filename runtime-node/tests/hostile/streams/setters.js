// Defines setters and getters on the prototypes of objects, arrays and promises, for the names and
// indices that streams use.
// expect: answer abc 0
const leaked = [];
const { defineProperty, deleteProperty } = Reflect;
const NAMES = [
  '0', '1', '2', 'first', 'last', 'next', 'value', 'size', 'request', 'queue', 'reader', 'writer', 'stream', 'controller',
  'state', 'error', 'pull', 'cancel', 'start', 'write', 'close', 'abort', 'transform', 'flush', 'highWaterMark', 'type',
  'capability', 'promise', 'made', 'reason', 'pending', 'self', 'handle', 'waiting', 'chunk', 'object', 'signal',
];
export default {
  async fetch() {
    const chunks = [];
    const sink = new WritableStream({ start: undefined, write: (chunk) => void (chunks[chunks.length] = chunk) });
    const trap = (name) => ({
      __proto__: null,
      configurable: true,
      get() {
        return undefined;
      },
      set(value) {
        defineProperty(leaked, leaked.length, { __proto__: null, value: [name, this], writable: true, enumerable: true, configurable: true });
        defineProperty(this, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
      },
    });
    let done;
    defineProperty(chunks, '0', { value: '', writable: true, enumerable: true, configurable: true });
    for (const name of NAMES) for (const { prototype } of [Object, Array, Promise]) defineProperty(prototype, name, trap(name));
    try {
      const stream = new ReadableStream({ start(c) { c.enqueue('a'); c.enqueue('b'); c.enqueue('c'); c.close(); } });
      const [one, other] = stream.tee();
      done = one.pipeThrough(new TransformStream()).pipeTo(sink);
      other.cancel();
      new ReadableStream({ type: 'bytes', pull(c) { c.enqueue(new Uint8Array(3)); } }).getReader({ mode: 'byob' }).read(new Uint8Array(2));
      await done;
    } finally {
      for (const name of NAMES) for (const { prototype } of [Object, Array, Promise]) deleteProperty(prototype, name);
    }
    let inside = 0;
    for (let i = 0; i < leaked.length; i++) if (leaked[i][1] !== chunks) inside++;
    return new Response(`${chunks.join('')} ${inside}`);
  },
};
