// Sets that are compared item by item, which goes by the square.
// expect: cpu_limit_exceeded
// flags: nodejs_compat
import { isDeepStrictEqual } from 'node:util';
const make = (last) => new Set(Array.from({ length: 5_000 }, (_, i) => ({ i: i === 0 ? last : i })));
export default { fetch: () => new Response(`${isDeepStrictEqual(make(-1), make(-2))}`) };
