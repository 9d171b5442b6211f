// Registers finalizers that keep a shard busy while it has no requests.
// expect: answer registered
// requests: 3
// limits: cpu_ms=100 memory_mib=32
let called = 0;
const registry = new FinalizationRegistry(() => {
  called++;
  const garbage = [];
  for (let i = 0; i < 1e4; i++) garbage.push({});
  for (let i = 0; i < 10; i++) registry.register({}, i);
  if (called > 1e6) console.log('a million finalizers ran');
});
export default {
  async fetch() {
    for (let i = 0; i < 1000; i++) registry.register({}, i);
    const garbage = [];
    for (let i = 0; i < 1e5; i++) garbage.push([i]);
    return new Response('registered');
  },
};
