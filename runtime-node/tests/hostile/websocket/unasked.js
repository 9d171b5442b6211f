// Returns a WebSocket in response to a request that did not request one.
// expect: worker_exception
// logs: does not ask for a WebSocket
export default {
  async fetch() {
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    server.onclose = () => { for (;;); };
    server.send('to no peer');
    return new Response(null, { status: 101, webSocket: client });
  },
};
