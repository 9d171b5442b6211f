// Compares Sets item by item, in quadratic time.
// expect: cpu_limit_exceeded
// flags: nodejs_compat
import { isDeepStrictEqual } from 'node:util';
const items = Array.from({ length: 20_000 }, (_, i) => i);
const make = (order) => new Set(order.map((i) => ({ i })));
export default { fetch: () => new Response(`${isDeepStrictEqual(make(items), make(items.toReversed()))}`) };
