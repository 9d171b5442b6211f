// Requests an endless list of subprotocols.
// expect: cpu_limit_exceeded or memory_limit_exceeded
export default {
  async fetch() {
    new WebSocket('ws://a.test/', (function* () { for (let i = 0; ; i++) yield `p${i}`; })());
    return new Response('there was an end');
  },
};
