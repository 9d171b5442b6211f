// Sends messages without end to a socket that is never accepted.
// expect: memory_limit_exceeded or cpu_limit_exceeded or worker_exception
// limits: cpu_ms=2000
export default {
  async fetch() {
    const [one] = Object.values(new WebSocketPair());
    one.accept();
    for (;;) one.send(new Uint8Array(1 << 20));
  },
};
