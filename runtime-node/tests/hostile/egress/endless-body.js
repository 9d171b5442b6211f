// Sends an endless stream to an address that egress refuses.
// expect: answer refused
// limits: cpu_ms=200
export default {
  async fetch() {
    let made = 0;
    const body = new ReadableStream({
      pull(controller) {
        made++;
        controller.enqueue(new Uint8Array(65536));
      },
    });
    try {
      await fetch('http://10.0.0.1/', { method: 'POST', body, duplex: 'half' });
      return new Response('let through');
    } catch {
      return new Response(made < 100 ? 'refused' : `${made} pieces were made`);
    }
  },
};
