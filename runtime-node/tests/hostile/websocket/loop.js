// Loops in the handler of the second message.
// expect: cpu_limit_exceeded
export default {
  async fetch() {
    const [one, other] = Object.values(new WebSocketPair());
    one.accept();
    other.accept();
    other.onmessage = ({ data }) => {
      if (data === '2') for (;;);
    };
    one.send('1');
    one.send('2');
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return new Response('it came to an end');
  },
};
