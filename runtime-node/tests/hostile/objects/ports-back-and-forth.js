// Sends a message back and forth between two ports forever.
// expect: cpu_limit_exceeded
// limits: cpu_ms=50 wall_ms=10000
export default {
  async fetch(request, env, ctx) {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => port1.postMessage(data);
    port2.onmessage = ({ data }) => port2.postMessage(data);
    port1.postMessage('x');
    await new Promise(() => {});
  },
};
