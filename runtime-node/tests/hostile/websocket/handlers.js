// Throws, closes, sends and removes handlers within handlers.
// expect: answer message message close close
// logs: in a handler
export default {
  async fetch() {
    const [one, other] = Object.values(new WebSocketPair());
    const seen = [];
    one.accept();
    other.accept();
    const over = new Promise((resolve) => {
      let closed = 0;
      for (const socket of [one, other]) {
        socket.addEventListener('close', () => {
          seen.push('close');
          socket.close();
          socket.close(1000);
          socket.send('after the end');
          if (++closed === 2) resolve();
          throw new Error('in a handler');
        });
      }
    });
    other.onmessage = function first() {
      seen.push('message');
      other.onmessage = null;
      other.addEventListener('message', () => {
        seen.push('message');
        other.close(4000, 'x');
        other.close(4001, 'y');
        throw new Error('in a handler');
      }, { once: true });
      throw new Error('in a handler');
    };
    one.send('1');
    one.send('2');
    one.send('3');
    await over;
    return new Response(seen.join(' '));
  },
};
