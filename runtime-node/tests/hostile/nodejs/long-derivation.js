// Requests two billion iterations of PBKDF2 in one call.
// expect: cpu_limit_exceeded
// flags: nodejs_compat
import { pbkdf2Sync } from 'node:crypto';
export default {
  fetch() {
    return new Response(pbkdf2Sync('password', 'salt', 2 ** 31 - 1, 1_000, 'sha512'));
  },
};
