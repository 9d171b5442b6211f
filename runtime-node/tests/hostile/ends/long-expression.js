// Makes V8 parse a regular expression whose syntax tree is a hundred times as large as its text.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// limits: memory_mib=128
// beyond: 60000
export default { fetch: () => new Response(String(new RegExp('(?:[a])'.repeat(2 ** 22)).test('b'))) };
