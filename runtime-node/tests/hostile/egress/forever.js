// Fetches again after every failure, long after it has reached its limit on subrequests.
// expect: cpu_limit_exceeded or wall_limit_exceeded
export default {
  async fetch() {
    for (;;) await fetch('http://10.0.0.1/').catch(() => {});
  },
};
