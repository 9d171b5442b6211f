// A port to which nobody will ever send anything keeps nobody waiting.
// expect: no_response
export default {
  async fetch(request, env, ctx) {
    const { port1 } = new MessageChannel();
    await new Promise((resolve) => { port1.onmessage = resolve; });
  },
};
