// Grows a memory, which detaches its buffer, while the platform uses a view of it.
// expect: answer held
// limits: cpu_ms=5000
export default {
  async fetch(request, env, ctx) {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 200 });
    const view = () => new Uint8Array(memory.buffer, 100, 60_000);
    const grow = () => { memory.grow(1); return 'x'; };
    const quietly = async (attempt) => { try { await attempt(); } catch {} };
    const calls = [
      () => new TextDecoder({ get fatal() { grow(); } }).decode(view()),
      () => new TextDecoder().decode(view(), { get stream() { grow(); return true; } }),
      () => new TextEncoder().encodeInto({ toString: grow }, view()),
      () => new Response(view(), { get status() { grow(); return 200; } }).text(),
      () => { const response = new Response(view()); grow(); return response.text(); },
      () => { const digest = crypto.subtle.digest({ get name() { grow(); return 'SHA-256'; } }, view()); return digest; },
      () => { const digest = crypto.subtle.digest('SHA-256', view()); grow(); return digest; },
      () => crypto.getRandomValues(view()),
      () => new Blob([view(), { toString: grow }]).text(),
      () => structuredClone({ view: view(), get other() { return grow(); } }),
      () => structuredClone(view(), { transfer: [memory.buffer] }),
      () => new WebAssembly.Module(view(), { get builtins() { grow(); return []; } }),
      () => WebAssembly.instantiate(view(), { get m() { grow(); } }),
      () => { const s = new CompressionStream('gzip'); const w = s.writable.getWriter(); w.write(view()); grow(); w.close(); return new Response(s.readable).bytes(); },
      () => { const s = new ReadableStream({ type: 'bytes', pull(c) { const r = c.byobRequest; grow(); r.respond(1); } }); return s.getReader({ mode: 'byob' }).read(view()); },
      () => memory.buffer.transfer(), () => memory.buffer.slice({ valueOf() { grow(); return 0; } }),
      () => view().set({ length: 2, get 0() { grow(); return 1; } }), () => view().fill({ valueOf() { grow(); return 1; } }),
      () => view().sort((a, b) => { if (memory.buffer.byteLength < 2 ** 23) grow(); return a - b; }),
    ];
    for (const call of calls) for (let i = 0; i < 3; i++) await quietly(call);
    new Uint8Array(memory.buffer).fill(7);
    return new Response('held');
  },
};
