// Echoes messages between two ends forever, and never answers the request.
// expect: cpu_limit_exceeded or wall_limit_exceeded
// limits: cpu_ms=100 wall_ms=3000
export default {
  async fetch() {
    const [one, other] = Object.values(new WebSocketPair());
    for (const socket of [one, other]) {
      socket.accept();
      socket.onmessage = ({ data }) => socket.send(data);
    }
    one.send('ping');
    await new Promise(() => {});
  },
};
