// Accepts an end twice, and sends through an end that belongs to a response.
// expect: answer TypeError TypeError
const kept = [];
export default {
  async fetch() {
    const failures = [];
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    kept.push(new Response(null, { status: 101, webSocket: client }));
    for (const attempt of [() => server.accept(), () => client.send('x')]) {
      try {
        attempt();
      } catch (error) {
        failures.push(error.name);
      }
    }
    return new Response(failures.join(' '));
  },
};
