// Catches and survives as many terminations as possible.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const again = async () => {
      for (;;) {
        try {
          for (;;);
        } catch {
          continue;
        } finally {
          again();
        }
      }
    };
    return again();
  },
};
