// Defines `then` on all promises and objects, so that it records its receivers and arguments.
// expect: answer abc ABC abc
const seen = [];
export default {
  async fetch() {
    const { then } = Promise.prototype;
    const { prototype } = Object;
    const collect = (stream) => {
      const chunks = [];
      return stream.pipeTo(new WritableStream({ write: (chunk) => void chunks.push(chunk) })).then(() => chunks.join(''));
    };
    const source = () => new ReadableStream({
      start(c) {
        c.enqueue('a');
        c.enqueue('b');
        c.enqueue('c');
        c.close();
      },
    });
    let results = [];
    Object.defineProperty(prototype, 'then', {
      configurable: true,
      get() {
        seen.push(this);
        return undefined;
      },
    });
    Promise.prototype.then = function (a, b) {
      seen.push(this, a, b);
      return Reflect.apply(then, this, [a, b]);
    };
    try {
      const [one, other] = source().tee();
      const upper = source().pipeThrough(new TransformStream({ transform: (x, c) => c.enqueue(x.toUpperCase()) }));
      results = [collect(one), collect(upper), collect(other)];
      // The method must not have received the internal objects.
      for (const thing of seen) {
        if (typeof thing !== 'object' || thing === null || thing instanceof Promise) continue;
        if ('queue' in thing || 'controller' in thing || 'reader' in thing || 'stream' in thing) return new Response('leaked');
      }
    } finally {
      Promise.prototype.then = then;
    }
    const texts = await Promise.all(results);
    delete prototype.then;
    return new Response(texts.join(' '));
  },
};
