// Detaches a buffer while a host function converts its other arguments.
// expect: answer held
// body: the text
export default {
  async fetch(request, env, ctx) {
    const fresh = () => new Uint8Array([0xe2, 0x82, 0xac, 0x61]);
    const take = (view) => view.buffer.transfer();
    let view = fresh();
    const decoders = [() => new TextDecoder().decode(view, { get stream() { take(view); return false; } }),
      () => new TextDecoder('gbk').decode(view.buffer, { get stream() { take(view); return true; } })];
    for (const decode of decoders) {
      view = fresh();
      try {
        decode();
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    }
    view = fresh();
    new TextEncoder().encodeInto({ toString() { take(view); return 'text'; } }, view);
    view = fresh();
    const response = new Response(view, { get headers() { take(view); return {}; } });
    if (await response.text() !== '\u20aca') return new Response('lost');
    view = fresh();
    take(view);
    for (const use of [() => new Response(view), () => crypto.getRandomValues(view), () => new TextDecoder().decode(view),
      () => new TextEncoder().encodeInto('x', view), () => console.log(view, view.buffer), () => new Response(view.buffer),
      () => new TextDecoder().decode(new DataView(new ArrayBuffer(8)), { get stream() { return 1; } })]) {
      try {
        use();
      } catch {}
    }
    const bytes = await request.bytes();
    take(bytes);
    return new Response('held');
  },
};
