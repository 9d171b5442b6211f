// Starts timers that start timers.
// expect: cpu_limit_exceeded or memory_limit_exceeded or worker_exception
export default {
  async fetch(request, env, ctx) {
    const again = () => {
      setTimeout(again);
      setTimeout(again);
    };
    again();
    await new Promise(() => {});
  },
};
