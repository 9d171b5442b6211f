// Uses the socket of one request in the next request.
// expect: answer first or answer 5 ended
// requests: 3
import { connect } from 'cloudflare:sockets';
let kept;
export default {
  async fetch() {
    if (kept === undefined) {
      const socket = connect('10.0.0.1:80', { secureTransport: 'starttls' });
      kept = { socket, reader: socket.readable.getReader(), writer: socket.writable.getWriter(), upgraded: socket.startTls() };
      return new Response('first');
    }
    const { socket, reader, writer, upgraded } = kept;
    const uses = [
      reader.read(), writer.write(new Uint8Array(1)), upgraded.opened, upgraded.close(), upgraded.readable.cancel(),
    ];
    const ended = uses.map((use) => Promise.race([use, scheduler.wait(20)]).then(() => 1, () => 1));
    socket.close();
    return new Response(`${(await Promise.all(ended)).length} ended`);
  },
};
