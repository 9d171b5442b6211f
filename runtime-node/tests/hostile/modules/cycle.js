// Imports modules that import each other in a cycle, and a module that imports itself.
// expect: answer a b
import { b } from './b.js';
import * as self from './worker.js';
export const a = 'a';
export default { fetch: () => new Response(`${self.a} ${b()}`) };
// module: b.js
import { a } from './worker.js';
import './c.js';
export const b = () => (a === 'a' ? 'b' : 'x');
// module: c.js
import './b.js';
import './c.js';
import './worker.js';
