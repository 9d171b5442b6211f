// Keeps array buffers that it creates in many ways.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (;;) {
      const buffer = new ArrayBuffer(1 << 16);
      all.push(buffer.slice(0), buffer.transfer(1 << 17), new Uint8Array(1 << 16), new TextEncoder().encode('x'.repeat(1 << 16)));
      all.push(await new Response('x'.repeat(1 << 16)).bytes(), Float64Array.from({ length: 1 << 13 }), new Uint8Array(all.at(-1)).toSorted());
    }
  },
};
