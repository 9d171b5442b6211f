// Decompresses a hundred kilobytes to a hundred megabytes, and keeps them.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: cpu_ms=2000
export default {
  async fetch() {
    const zeros = new Uint8Array(1 << 20);
    let left = 100;
    const source = new ReadableStream({ pull: (c) => (left-- > 0 ? c.enqueue(zeros) : c.close()) });
    const packed = await new Response(await collect(source.pipeThrough(new CompressionStream('gzip')))).arrayBuffer();
    const parts = [];
    for await (const part of ReadableStream.from([packed]).pipeThrough(new DecompressionStream('gzip'))) parts.push(part);
    return new Response('never');
  },
};
async function collect(stream) {
  const parts = [];
  for await (const part of stream) for (const byte of part) parts.push(byte);
  return new Uint8Array(parts);
}
