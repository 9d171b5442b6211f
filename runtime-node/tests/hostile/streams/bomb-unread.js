// Writes an input that decompresses to a hundred megabytes, and reads only one chunk of the output:
// the rest must not take memory.
// expect: answer waited
// limits: cpu_ms=2000
export default {
  async fetch() {
    const zeros = new Uint8Array(1 << 20);
    const { readable, writable } = new DecompressionStream('deflate');
    const compressor = new CompressionStream('deflate');
    let left = 100;
    new ReadableStream({ pull: (c) => (left-- > 0 ? c.enqueue(zeros) : c.close()) }).pipeTo(compressor.writable);
    const parts = [];
    for await (const part of compressor.readable) for (const byte of part) parts.push(byte);
    const writer = writable.getWriter();
    writer.write(new Uint8Array(parts)).catch(() => {});
    const reader = readable.getReader();
    await reader.read();
    const written = await Promise.race([writer.ready.then(() => 'written'), new Promise((resolve) => setTimeout(resolve, 20, 'waited'))]);
    return new Response(written);
  },
};
