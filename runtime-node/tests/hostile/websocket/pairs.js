// Keeps a hundred thousand pairs, each with an unread message.
// expect: answer made or cpu_limit_exceeded or memory_limit_exceeded
// limits: cpu_ms=1000
export default {
  async fetch() {
    const all = [];
    for (let i = 0; i < 100_000; i++) {
      const pair = new WebSocketPair();
      pair[0].accept();
      pair[0].send(`${i}`);
      all.push(pair);
    }
    return new Response('made');
  },
};
