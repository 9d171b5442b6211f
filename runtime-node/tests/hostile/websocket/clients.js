// Opens a hundred thousand connections to an address that egress refuses.
// expect: answer begun or cpu_limit_exceeded or memory_limit_exceeded
// limits: cpu_ms=500
export default {
  async fetch() {
    for (let i = 0; i < 100_000; i++) {
      const socket = new WebSocket(`ws://10.0.0.1/${i}`);
      socket.onerror = () => {};
    }
    return new Response('begun');
  },
};
