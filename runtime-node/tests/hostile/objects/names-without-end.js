// Passes texts and lists with many names: an implementation could scan them again for each name,
// which would take quadratic time.
// expect: answer held
// limits: cpu_ms=400
export default {
  async fetch(request, env, ctx) {
    new URLSearchParams('a&'.repeat(320_000));
    const many = new URLSearchParams('a=1&'.repeat(20_000));
    many.set('a', '2');
    many.append('a', '3');
    many.delete('a');
    const names = Array.from({ length: 10_000 }, (_, i) => i.toString(36));
    [...new Headers(names.map((name) => [`x${name}`, 'y']))];
    const type = `a/b${names.slice(0, 8_000).map((name) => `;${name}=b`).join('')}`;
    await new Response('', { headers: { 'content-type': type } }).blob();
    return new Response('held');
  },
};
