// Passes hosts and ports of up to 2²⁴ characters to native code, and writes a thousand chunks at
// once.
// expect: answer refused or memory_limit_exceeded
// limits: cpu_ms=2000 memory_mib=128
// beyond: 100
import { connect } from 'cloudflare:sockets';
export default {
  async fetch() {
    let long = 'x';
    while (long.length < 2 ** 24) long += long;
    for (const address of [`${long}:80`, { hostname: long, port: 80 }, `[${long}]:80`, `a.test:${long}`, `a.test:${'1'.repeat(2 ** 20)}`]) {
      try {
        connect(address);
        return new Response('let through');
      } catch (error) {
        if (!(error instanceof TypeError || error instanceof RangeError)) return new Response(`${error}`);
      }
    }
    const writer = connect('10.0.0.1:80', { highWaterMark: 2 ** 53 - 1 }).writable.getWriter();
    for (let i = 0; i < 1000; i++) writer.write(new Uint8Array(2 ** 10)).catch(() => {});
    await writer.closed.catch(() => {});
    return new Response('refused');
  },
};
