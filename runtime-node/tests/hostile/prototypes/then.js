// Defines a then method on every prototype, which every await would call.
// expect: answer well
// body: text
export default {
  async fetch(request, env, ctx) {
    const { prototype } = Object;
    let asked = 0;
    for (const object of [prototype, Response.prototype, Request.prototype, Uint8Array.prototype, Promise.prototype]) {
      if (object === Promise.prototype) continue;
      Object.defineProperty(object, 'then', {
        configurable: true,
        get() {
          asked++;
          return undefined;
        },
      });
    }
    await request.arrayBuffer();
    return new Response('well');
  },
};
