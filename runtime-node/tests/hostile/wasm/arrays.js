// Keeps arrays of WebAssembly GC, each with a million elements.
// expect: memory_limit_exceeded or cpu_limit_exceeded or answer RuntimeError
// limits: cpu_ms=2000 memory_mib=32
const instance = (bytes, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports).exports;
export default {
  async fetch(request, env, ctx) {
    // The module calls array.new_default of (type (array (mut i32))), and returns the array.
    const bytes = new Uint8Array([
      0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
      1, 10, 2, 0x5e, 0x7f, 1, 0x60, 1, 0x7f, 1, 0x63, 0,
      3, 2, 1, 1, 7, 7, 1, 3, 0x72, 0x75, 0x6e, 0, 0,
      10, 9, 1, 7, 0, 0x20, 0, 0xfb, 7, 0, 0x0b,
    ]);
    const { run } = instance(bytes);
    const all = [];
    try { for (;;) all.push(run(1_000_000)); } catch (error) { return new Response(error.name); }
  },
};
