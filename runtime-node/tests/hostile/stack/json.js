// Converts an object to JSON within its own toJSON.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    JSON.stringify({
      toJSON() {
        return JSON.stringify(this);
      },
    });
  },
};
