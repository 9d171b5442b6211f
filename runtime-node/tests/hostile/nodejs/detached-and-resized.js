// Detaches and resizes a Buffer's memory within conversions that its methods perform.
// expect: answer nothing
// flags: nodejs_compat
export default {
  fetch() {
    const results = [];
    for (const act of [
      (b, evil) => b.fill('x', 0, evil), (b, evil) => b.write('xyz', 0, evil), (b, evil) => b.indexOf('a', evil),
      (b, evil) => b.copy(Buffer.alloc(9), evil, evil, evil), (b, evil) => b.writeUInt32LE(evil, 0), (b, evil) => b.writeDoubleBE(evil, 0),
      (b, evil) => b.subarray(evil, evil), (b, evil) => b.toString('utf8', evil, evil), (b, evil) => Buffer.from(b.buffer, evil, evil),
      (b, evil) => Buffer.from(evil), (b, evil) => Buffer.concat([b, evil]), (b, evil) => b.compare(evil, evil), (b, evil) => b.readUIntBE(evil, 6),
    ]) {
      for (const take of [(memory) => memory.transfer(), (memory) => memory.resize(1)]) {
        const memory = new ArrayBuffer(64, { maxByteLength: 128 });
        const bytes = Buffer.from(memory, 8, 32);
        const evil = { valueOf() { take(memory); return 4; }, toString() { take(memory); return '4'; }, get length() { take(memory); return 3; } };
        try {
          act(bytes, evil);
        } catch (error) {
          if (!(error instanceof TypeError) && !(error instanceof RangeError)) throw error;
        }
        results.push(bytes.toString('hex').length, bytes.includes('x'));
      }
    }
    return new Response('nothing');
  },
};
