// Keeps a port from one request to the next, and a message that was in flight when the invocation
// that sent it ended.
// expect: answer held
// requests: 4
const { port1, port2 } = new MessageChannel();
const seen = [];
port2.onmessage = ({ data }) => {
  seen.push(data.number);
  data.port?.postMessage('there');
};
let number = 0;
export default {
  async fetch(request, env, ctx) {
    number++;
    if (number % 2 === 1) {
      // The message may or may not arrive, because nothing waits for it.
      port1.postMessage({ number });
      return new Response('held');
    }
    const channel = new MessageChannel();
    const got = new Promise((resolve) => { channel.port1.onmessage = resolve; });
    port1.postMessage({ number, port: channel.port2 }, [channel.port2]);
    await got;
    return new Response(seen.includes(number) ? 'held' : `${seen}`);
  },
};
