// Passes malformed import attributes, and attributes whose getters run code.
// expect: answer held
// limits: cpu_ms=1000
export default {
  async fetch() {
    const options = [
      { with: { type: 'json', other: 'x' } }, { with: { other: 'x' } }, { with: { type: 'x'.repeat(100_000) } },
      { with: { ['x'.repeat(100_000)]: 'json' } }, { with: { type: {} } }, { with: { type: Symbol() } }, { with: 1 }, 1,
      { get with() { throw new Error('a'); } }, { with: { get type() { throw new Error('b'); } } },
      { with: new Proxy({ type: 'json' }, { ownKeys() { throw new Error('c'); } }) },
      { with: Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`k${i}`, 'v'])) },
    ];
    const tried = await Promise.allSettled(options.map((option) => import('./a.json', option)));
    if (tried.some(({ status }) => status !== 'rejected')) return new Response('imported');
    // A getter imports a module as well.
    const within = { get type() { import('./a.json').catch(() => {}); return 'json'; } };
    const same = [await import('./a.json', { with: within }), await import('./a.json', {}), await import('./a.json', { with: {} })];
    return new Response(new Set(same).size === 1 ? 'held' : 'different');
  },
};
// module: a.json
{}
