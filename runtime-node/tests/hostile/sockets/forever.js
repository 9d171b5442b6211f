// Connects again after every failure, long after it has reached its limit on subrequests.
// expect: cpu_limit_exceeded or wall_limit_exceeded
import { connect } from 'cloudflare:sockets';
export default {
  async fetch() {
    for (;;) await connect('10.0.0.1:80').opened.catch(() => {});
  },
};
