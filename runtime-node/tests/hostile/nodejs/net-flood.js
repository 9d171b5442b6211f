// Opens connections to an address that egress refuses, and resolves names, a hundred thousand
// times.
// expect: answer begun or cpu_limit_exceeded or memory_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=200
// beyond: 100
import { lookup } from 'node:dns';
import { connect } from 'node:net';
export default {
  async fetch() {
    for (let i = 0; i < 100_000; i++) {
      connect(1 + (i % 1000), '10.0.0.1').on('error', () => {}).write('x');
      lookup(`name-${i}.test`, () => {});
    }
    return new Response('begun');
  },
};
