// Checks that a port that never receives a message keeps no invocation alive.
// expect: no_response
export default {
  async fetch(request, env, ctx) {
    const { port1 } = new MessageChannel();
    await new Promise((resolve) => { port1.onmessage = resolve; });
  },
};
