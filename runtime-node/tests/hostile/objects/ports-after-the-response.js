// Sends messages forever after the response, when nothing keeps the invocation alive.
// expect: answer early
// requests: 3
export default {
  async fetch(request, env, ctx) {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => port1.postMessage(data);
    port2.onmessage = ({ data }) => port2.postMessage(data);
    port1.postMessage('x');
    return new Response('early');
  },
};
