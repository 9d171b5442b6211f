// Inspects objects whose inspection never ends.
// expect: worker_exception or cpu_limit_exceeded
// flags: nodejs_compat
import { inspect } from 'node:util';
const endless = { [inspect.custom]: () => ({ [inspect.custom]: endless[inspect.custom] }) };
export default { fetch: () => new Response(inspect(endless)) };
