// Keeps decoders of unfinished streams. Native code holds the state of each decoder.
// expect: worker_exception
// logs: too many streams
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (;;) {
      const decoder = new TextDecoder('gb18030');
      decoder.decode(new Uint8Array([0x81]), { stream: true });
      all.push(decoder);
    }
  },
};
