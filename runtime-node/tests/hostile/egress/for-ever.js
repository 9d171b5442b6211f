// Fetches again whenever it has failed, though it has long had all that it may.
// expect: cpu_limit_exceeded or wall_limit_exceeded
export default {
  async fetch() {
    for (;;) await fetch('http://10.0.0.1/').catch(() => {});
  },
};
