// Tests a long string with a regular expression without operators. V8 treats the expression as a
// string to search for. The last 250 characters of the expression match at every position.
// expect: cpu_limit_exceeded
// limits: memory_mib=128
// beyond: 60
// patch: string-search
export default {
  fetch() {
    // V8 does not treat a pattern of few different characters as a string to search for.
    const different = String.fromCharCode(...Array.from({ length: 100 }, (_, i) => 0x80 + i));
    const pattern = new RegExp(`a${different}${'a'.repeat(250)}`);
    return new Response(pattern.test('a'.repeat(2 ** 25)));
  },
};
