// Queues microtasks with queueMicrotask, each of which queues two more.
// expect: cpu_limit_exceeded or memory_limit_exceeded or worker_exception
export default {
  async fetch(request, env, ctx) {
    const again = () => {
      queueMicrotask(again);
      queueMicrotask(again);
    };
    again();
  },
};
