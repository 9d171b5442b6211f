// Imports the same module a thousand times concurrently. Then imports modules that throw, that do
// not parse or that do not exist, a thousand times in all. Then imports by values that are not
// specifiers, and from code that was made at run time.
// expect: answer held
// limits: cpu_ms=2000
// lines: 10
export default {
  async fetch() {
    const same = await Promise.all(Array.from({ length: 1000 }, () => import('./b.js')));
    if (new Set(same).size !== 1) return new Response('many');
    const failed = await Promise.allSettled(Array.from({ length: 1000 }, (_, i) => import(`./c${i % 3}.js`)));
    if (failed.some(({ status }) => status !== 'rejected')) return new Response('loaded');
    for (const specifier of [Symbol(), { toString() { throw new Error('x'); } }, Object.create(null)]) {
      try {
        await import(specifier);
        return new Response('imported');
      } catch {}
    }
    const indirect = await eval("import('./b.js')");
    const made = await new Function("return import('b.js')")();
    return new Response(indirect === made && made === same[0] ? 'held' : 'different');
  },
};
// module: b.js
await null;
export default 1;
// module: c0.js
throw new Error('no');
// module: c1.js
export default (;
