// Tries to create resizable buffers with a huge maximum.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    const { constructor } = new Uint8Array(1).buffer;
    const made = [new ArrayBuffer(8, { maxByteLength: 2 ** 40 }), new constructor(8, { maxByteLength: 2 ** 40 }),
      Reflect.construct(ArrayBuffer, [8, { maxByteLength: 2 ** 40 }], Object), new (class extends ArrayBuffer {})(8, { maxByteLength: 2 ** 40 }),
      new ArrayBuffer[Symbol.species](8, { maxByteLength: 2 ** 40 }), new ArrayBuffer(8).transfer(16)];
    for (const buffer of made) {
      if (buffer.resizable || buffer.resize || buffer.maxByteLength !== undefined) return new Response('resizable');
    }
    return new Response('held');
  },
};
