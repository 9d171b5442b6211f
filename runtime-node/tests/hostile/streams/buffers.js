// Releases, transfers and reads views while they are being filled.
// expect: answer held
export default {
  async fetch() {
    const attacks = [
      (c) => { c.byobRequest.view.buffer.transfer(); c.enqueue(new Uint8Array(4)); },
      (c) => { const r = c.byobRequest; r.view.buffer.transfer(); r.respond(1); },
      (c) => { const r = c.byobRequest; const { view } = r; c.enqueue(new Uint8Array(8)); r.respond(4); view[0] = 1; },
      (c) => { const r = c.byobRequest; r.respondWithNewView(new Uint8Array(r.view.buffer, 0, r.view.byteLength)); r.respond(1); },
      (c) => { const r = c.byobRequest; r.respondWithNewView(new Uint8Array(new WebAssembly.Memory({ initial: 1 }).buffer, 0, 4)); },
      (c) => { const r = c.byobRequest; const { buffer } = r.view; buffer.transfer(1 << 20); r.respond(2 ** 40); },
      (c) => { const r = c.byobRequest; c.close(); r.respond(3); },
      (c) => { const r = c.byobRequest; c.error(1); r.respond(3); },
      (c) => { c.enqueue(new Uint8Array(new WebAssembly.Memory({ initial: 1 }).buffer)); },
      (c) => { const shared = new Uint8Array(8); c.enqueue(shared); c.enqueue(shared); },
    ];
    for (const attack of attacks) {
      for (const min of [1, 3]) {
        let controller;
        const stream = new ReadableStream({ type: 'bytes', start: (c) => void (controller = c) });
        const reader = stream.getReader({ mode: 'byob' });
        const reads = [reader.read(new Uint16Array(8), { min }), reader.read(new Uint8Array(3)), reader.read(new DataView(new ArrayBuffer(9), 3))];
        for (const read of reads) read.catch(() => {});
        try {
          attack(controller);
        } catch {}
        try {
          controller.enqueue(new Uint8Array(100));
        } catch {}
        try {
          reader.releaseLock();
          const [one, other] = stream.tee();
          one.getReader({ mode: 'byob' }).read(new Uint8Array(5)).catch(() => {});
          other.getReader().read().catch(() => {});
          controller.byobRequest?.respond(1);
        } catch {}
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
    }
    return new Response('held');
  },
};
