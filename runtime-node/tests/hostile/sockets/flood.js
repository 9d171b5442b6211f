// Opens a hundred thousand connections to an address that egress refuses, and awaits none of them.
// expect: answer begun or cpu_limit_exceeded or memory_limit_exceeded
// limits: cpu_ms=200
// beyond: 100
import { connect } from 'cloudflare:sockets';
export default {
  async fetch() {
    for (let i = 0; i < 100_000; i++) connect({ hostname: '10.0.0.1', port: 1 + (i % 1000) });
    return new Response('begun');
  },
};
