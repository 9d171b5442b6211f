// Adds listeners and dispatches events while an event is delivered.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const target = new EventTarget();
    const add = () => {
      target.addEventListener('x', () => add());
      target.dispatchEvent(new Event('x'));
    };
    for (;;) {
      try {
        add();
      } catch {}
    }
  },
};
