// Parses and formats JSON with a callback that never returns.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    JSON.parse('[1,2]', function reviver() {
      return JSON.stringify({
        toJSON() {
          for (;;);
        },
      });
    });
  },
};
