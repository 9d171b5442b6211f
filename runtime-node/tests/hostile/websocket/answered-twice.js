// Returns the same end in two responses, and an end that it has accepted itself.
// expect: answer TypeError TypeError
const failures = [];
export default {
  async fetch() {
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    const tried = (webSocket) => {
      const response = new Response(null, { status: 101, webSocket });
      addEventListener('fetch', () => response);
      return response;
    };
    tried(client);
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
