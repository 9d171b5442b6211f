// Answers through a server of node:http with a response that never ends, ignoring backpressure.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=1000 memory_mib=24
import { createServer } from 'node:http';
import { httpServerHandler } from 'cloudflare:node';
export default httpServerHandler(createServer((request, response) => {
  for (;;) response.write('x'.repeat(1 << 16));
}));
