// Changes the internal state of a Socket of node:net, and calls its internal methods.
// expect: answer alive
// flags: nodejs_compat
import net from 'node:net';
import tls from 'node:tls';
export default {
  async fetch() {
    const socket = net.connect(80, '10.0.0.1').on('error', () => {});
    const secured = new tls.TLSSocket(socket).on('error', () => {});
    for (const each of [socket, secured]) {
      for (const key of Object.getOwnPropertySymbols(each)) {
        const link = each[key];
        if (typeof link?.owner !== 'number') continue;
        for (const number of [0, 1, -1, NaN, 2 ** 53, 1e300, '7']) {
          Object.assign(link, { owner: number, number, isOpen: true, isReading: false, isTaken: false });
          for (const name of ['_read', '_write', '_writev', '_final', '_destroy']) {
            try {
              each[name](name === '_writev' ? [{ chunk: Buffer.from('x') }] : Buffer.from('x'), name === '_writev' ? () => {} : 'buffer', () => {});
            } catch {}
          }
        }
      }
      for (const key of Object.getOwnPropertySymbols(Object.getPrototypeOf(each))) {
        try { each[key](); } catch {}
      }
    }
    await scheduler.wait(20);
    return new Response('alive');
  },
};
