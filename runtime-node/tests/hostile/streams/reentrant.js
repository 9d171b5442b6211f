// Calls streams from every function that streams call.
// expect: answer held
// limits: cpu_ms=5000 wall_ms=10000
export default {
  async fetch() {
    const quiet = (f) => {
      try {
        const made = f();
        if (made instanceof Promise) made.catch(() => {});
      } catch {}
    };
    for (let seed = 0; seed < 100; seed++) {
      let state = seed * 2654435761 >>> 0;
      const pick = (n) => (state = (state * 1664525 + 1013904223) >>> 0) % n;
      let rc, wc, tc, depth = 0;
      let readable, writable, transform, reader, writer;
      const poke = () => {
        if (depth++ < 6) {
          for (let i = 0; i < 3; i++) {
            const actions = [
              () => rc.enqueue(new Uint8Array(4)), () => rc.close(), () => rc.error(1), () => readable.cancel(2), () => reader.read(),
              () => reader.releaseLock(), () => (reader = readable.getReader()), () => rc.byobRequest.respond(1),
              () => (reader = readable.getReader({ mode: 'byob' })), () => reader.read(new Uint8Array(3)), () => reader.cancel(),
              () => writer.write(new Uint8Array(2)), () => writer.close(), () => writer.abort(3), () => wc.error(4), () => writer.releaseLock(),
              () => (writer = writable.getWriter()), () => tc.enqueue(new Uint8Array(2)), () => tc.error(5), () => tc.terminate(),
              () => transform.readable.cancel(6), () => transform.writable.abort(7), () => readable.tee(),
              () => readable.pipeTo(writable), () => readable.pipeThrough(transform), () => transform.readable.pipeTo(writable),
              () => wc.signal.addEventListener('abort', poke),
            ];
            quiet(actions[pick(actions.length)]);
          }
        }
        depth--;
        switch (pick(5)) {
          case 0: throw new Error('poked');
          case 1: return Promise.reject(new Error('poked'));
          case 2: return { get then() { poke(); return undefined; } };
          case 3: return new Promise((resolve) => setTimeout(resolve, 0));
        }
        return undefined;
      };
      const size = () => (quiet(poke), pick(4) === 0 ? NaN : 1);
      const bytes = pick(2) === 0;
      quiet(() => (readable = new ReadableStream({
        type: bytes ? 'bytes' : undefined, start: (c) => void (rc = c), pull: poke, cancel: poke,
        autoAllocateChunkSize: bytes && pick(2) === 0 ? 8 : undefined,
      }, bytes ? { highWaterMark: pick(4) } : { highWaterMark: pick(4), size })));
      quiet(() => (writable = new WritableStream({ start: (c) => void (wc = c), write: poke, close: poke, abort: poke }, { highWaterMark: pick(4), size })));
      quiet(() => (transform = new TransformStream({ start: (c) => void (tc = c), transform: poke, flush: poke, cancel: poke }, { size }, { highWaterMark: pick(3), size })));
      quiet(() => (reader = readable.getReader()));
      quiet(() => (writer = writable.getWriter()));
      for (let i = 0; i < 10; i++) {
        depth = 0;
        quiet(poke);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
    return new Response('held');
  },
};
