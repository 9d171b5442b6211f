// Checks that a Worker's own module takes precedence over a module of Node.js of the same name.
// expect: answer own string
// flags: nodejs_compat
import { mine } from 'buffer';
import { kMaxLength } from 'node:buffer';
export default { fetch: () => new Response(`${mine} ${typeof `${kMaxLength}`}`) };
// module: buffer
export const mine = 'own';
