// Posts more messages in one turn than an invocation may have in flight.
// expect: answer held
// limits: cpu_ms=2000
export default {
  async fetch(request, env, ctx) {
    const { port1, port2 } = new MessageChannel();
    port2.onmessage = () => {};
    try {
      for (;;) port1.postMessage('x');
    } catch (error) {
      return new Response(error instanceof RangeError ? 'held' : `${error}`);
    }
  },
};
