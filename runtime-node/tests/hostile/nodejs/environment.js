// Checks that the environment has the Worker's variables and none of the process's.
// expect: answer SECRET the hostile Worker's own
// flags: nodejs_compat
import { env } from 'node:process';
export default { fetch: () => new Response(`${Object.keys(env)} ${process.env.SECRET}`) };
