// Sends to itself repeatedly without ending its turn.
// expect: answer RangeError or cpu_limit_exceeded or memory_limit_exceeded
// limits: cpu_ms=500
export default {
  async fetch() {
    const [one, other] = Object.values(new WebSocketPair());
    one.accept();
    other.accept();
    try {
      for (;;) one.send('x');
    } catch (error) {
      return new Response(error.name);
    }
  },
};
