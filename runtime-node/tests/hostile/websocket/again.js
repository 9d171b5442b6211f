// Reconnects after every failure, immediately and forever.
// expect: cpu_limit_exceeded or wall_limit_exceeded or answer begun
// limits: cpu_ms=100 wall_ms=2000
export default {
  async fetch() {
    const again = () => {
      const socket = new WebSocket('ws://10.0.0.1/');
      socket.onclose = again;
    };
    again();
    return new Response('begun');
  },
};
