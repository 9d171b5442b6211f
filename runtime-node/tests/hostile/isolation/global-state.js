// Leaves traces wherever isolates could share state; the next revision looks for them.
// expect: answer clean
// requests: 4
const marks = [globalThis, Object, Object.prototype, Array.prototype, Response, console, Intl, JSON, Symbol, Function.prototype];
let marked = false;
for (const object of marks) if ('mark' in object) marked = true;
if (Symbol.for('mark').description !== 'mark' || globalThis[Symbol.for('mark')]) marked = true;
for (const object of marks) Object.defineProperty(object, 'mark', { value: 1, configurable: true });
globalThis[Symbol.for('mark')] = 1;
Error.stackTraceLimit = 0;
RegExp('a').test('a mark');
export default {
  fetch() {
    return new Response(marked ? 'marked' : 'clean');
  },
};
// revision: the next
const marks = [globalThis, Object, Object.prototype, Array.prototype, Response, console, Intl, JSON, Symbol, Function.prototype];
let marked = false;
for (const object of marks) if ('mark' in object) marked = true;
if (Symbol.for('mark').description !== 'mark' || globalThis[Symbol.for('mark')]) marked = true;
for (const object of marks) Object.defineProperty(object, 'mark', { value: 1, configurable: true });
globalThis[Symbol.for('mark')] = 1;
Error.stackTraceLimit = 0;
RegExp('a').test('a mark');
export default {
  fetch() {
    return new Response(marked ? 'marked' : 'clean');
  },
};
