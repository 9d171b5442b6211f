// Queues microtasks that queue microtasks.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const again = () => Promise.resolve().then(again);
    again();
    await new Promise(() => {});
  },
};
