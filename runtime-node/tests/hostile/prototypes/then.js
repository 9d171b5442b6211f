// Defines a getter `then` on several prototypes, which every await reads.
// expect: answer well
// body: text
export default {
  async fetch(request, env, ctx) {
    for (const { prototype } of [Object, Response, Request, Uint8Array]) {
      Object.defineProperty(prototype, 'then', { configurable: true, get: () => undefined });
    }
    await request.arrayBuffer();
    return new Response('well');
  },
};
