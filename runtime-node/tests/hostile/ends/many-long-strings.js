// Reads several of the longest strings in one turn and keeps them. After each collection, V8
// allocates the next string even if it exceeds the limit of the heap.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 wall_ms=30000 memory_mib=128
// beyond: 60000
export default {
  fetch() {
    globalThis.kept = [];
    for (const letter of 'abcdefgh') {
      kept.push(letter.repeat(2 ** 26 - 24));
      kept.at(-1).charCodeAt(0);
    }
    return new Response();
  },
};
