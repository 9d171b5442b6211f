// Requests more memory for scrypt than the Worker has, and unbounded costs.
// expect: answer RangeError RangeError RangeError RangeError
// flags: nodejs_compat
import { scryptSync } from 'node:crypto';
const costs = [{ N: 2 ** 20, r: 8 }, { N: 2 ** 31, r: 1024 }, { N: 2, r: 2 ** 31 }, { N: 2, r: 1024, p: 2 ** 31 }];
export default {
  fetch() {
    return new Response(costs.map((cost) => {
      try {
        return `derived ${scryptSync('password', 'salt', 64, { ...cost, maxmem: 2 ** 53 - 1 }).length}`;
      } catch (error) {
        return error.name;
      }
    }).join(' '));
  },
};
