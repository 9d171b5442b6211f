// Passes other objects in place of a WebSocket, and a WebSocket in place of other objects.
// expect: answer 11 refused
export default {
  async fetch() {
    let refused = 0;
    const tries = [
      () => new Response(null, { status: 101 }),
      () => new Response(null, { status: 101, webSocket: {} }),
      () => new Response(null, { status: 101, webSocket: new Proxy(new WebSocketPair()[0], {}) }),
      () => new Response(null, { status: 101, webSocket: Object.create(WebSocket.prototype) }),
      () => new Response(null, { status: 200, webSocket: new WebSocketPair()[0] }),
      () => new Response('body', { status: 101, webSocket: new WebSocketPair()[0] }),
      () => new Response(null, { status: 101, webSocket: new WebSocketPair()[0] }).clone(),
      () => WebSocket.prototype.accept.call({}),
      () => WebSocket.prototype.send.call(Object.create(WebSocket.prototype), 'x'),
      () => Object.getOwnPropertyDescriptor(WebSocket.prototype, 'readyState').get.call(new EventTarget()),
      () => new WebSocketPair()[0].send('not accepted'),
    ];
    for (const attempt of tries) {
      try {
        attempt();
      } catch (error) {
        if (error instanceof TypeError || error instanceof RangeError) refused++;
      }
    }
    return new Response(`${refused} refused`);
  },
};
