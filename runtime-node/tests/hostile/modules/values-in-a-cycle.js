// Imports the same values in every form from modules in a cycle, before and after they exist.
// expect: answer [1] true 3 5 true
import { b, early } from './b.js';
import json from './a.json';
import text from './a.json' with { type: 'text' };
export const late = json;
export default {
  async fetch() {
    const again = await import('./a.json', { with: { type: 'json' } });
    const bytes = await import('./a.json', { with: { type: 'bytes' } });
    return new Response([JSON.stringify(json), b === json, text.trim().length, bytes.default.length + 1, early && again.default === json].join(' '));
  },
};
// module: b.js
import * as worker from './worker.js';
import json from './a.json' with { type: 'json' };
export const b = json;
export let early = false;
try {
  worker.late;
} catch (error) {
  early = error instanceof ReferenceError;
}
// module: a.json
[1]
