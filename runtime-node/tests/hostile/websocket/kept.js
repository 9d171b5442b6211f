// Uses sockets of one request in the next request.
// expect: answer 2 3 or answer 3 3 or answer first
// requests: 2
let kept;
export default {
  async fetch() {
    if (kept !== undefined) {
      const { one, page } = kept;
      one.send('to no peer');
      try { one.close(); } catch {}
      page.send('x');
      page.close();
      return new Response(`${one.readyState} ${page.readyState}`);
    }
    const [one, other] = Object.values(new WebSocketPair());
    one.accept();
    other.accept();
    const page = new WebSocket('ws://10.0.0.1/');
    kept = { one, page };
    await new Promise((resolve) => { page.onclose = resolve; });
    return new Response('first');
  },
};
