// Passes another Worker values that are endless or enormous, or that change while they are encoded.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: cpu_ms=2000 memory_mib=128 wall_ms=20000
// beyond: 60
// calls: OTHER
// requests: 3
export default {
  async fetch(request, env, ctx) {
    const endless = () => ({ get next() { return endless(); } });
    const changing = [1];
    Object.defineProperty(changing, 0, { enumerable: true, get() { if (changing.length < 2 ** 16) changing.push({}); return changing.length; } });
    const growing = new Map();
    growing.set({ get grow() { for (let i = 0; i < 1000; i++) growing.set({}, {}); return 1; } }, 1);
    const sparse = [];
    sparse.length = 2 ** 32 - 1;
    const wide = {};
    for (let i = 0; i < 50_000; i++) wide[`key${i}`] = i;
    let shared = [];
    for (let i = 0; i < 40; i++) shared = [shared, shared];
    const buffer = new ArrayBuffer(2 ** 25 + 1);
    const views = [];
    for (let i = 0; i < 10_000; i++) views.push(new Uint8Array(buffer, i, 1));
    const vanishing = { get first() { delete vanishing.second; return 1; }, second: 2 };
    const values = [
      endless(), changing, growing, wide, shared, views, vanishing, 'x'.repeat(2 ** 25 + 1), '\ud800'.repeat(2 ** 24), 1n << 1_000_000n,
      new Proxy([], {}), new Array(2 ** 21).fill().map(() => ({})), Array.from({ length: 1500 }, () => () => 1), sparse,
    ];
    for (const value of values) {
      const outcome = await env.OTHER.take(value).then(() => 'sent', (error) => error);
      if (outcome === 'sent') return new Response('sent');
    }
    return new Response('refused');
  },
};
