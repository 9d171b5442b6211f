// Loops in the handler of the second message.
// expect: cpu_limit_exceeded
export default {
  async fetch() {
    const [client, server] = Object.values(new WebSocketPair());
    client.accept();
    server.accept();
    server.onmessage = ({ data }) => {
      if (data === '2') for (;;);
    };
    client.send('1');
    client.send('2');
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return new Response('the loop ended');
  },
};
