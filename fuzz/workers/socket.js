// Echoes each message of a WebSocket.
export default {
  fetch() {
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.binaryType = "arraybuffer";
    server.addEventListener("message", ({ data }) => server.send(data));
    return new Response(null, { status: 101, webSocket: client });
  },
};
