// Registers a finalizer that never returns.
// expect: answer registered or cpu_limit_exceeded
// requests: 5
const registry = new FinalizationRegistry(() => {
  for (;;);
});
export default {
  async fetch() {
    for (let i = 0; i < 100; i++) registry.register({}, i);
    for (let i = 0; i < 2e5; i++) new Array(10);
    return new Response('registered');
  },
};
