// Requests scrypt with a parallelization of 1024 in one call.
// expect: cpu_limit_exceeded
// flags: nodejs_compat
import { scryptSync } from 'node:crypto';
export default {
  fetch() {
    return new Response(scryptSync('password', 'salt', 64, { N: 2 ** 13, r: 8, p: 1024 }));
  },
};
