// Replaces many matches with templates of many parts: V8 would end the process if it listed all
// parts.
// expect: cpu_limit_exceeded or memory_limit_exceeded or worker_exception
// requests: 12
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) text.replace(/a/g, many('$&')); } };
// revision: 2
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) text.replace(/a/g, many('$`')); } };
// revision: 3
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) text.replace(/a/g, many("$'")); } };
// revision: 4
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) text.replace(/(a)/g, many('$1')); } };
// revision: 5
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) text.replace(/(?<name>a)/g, many('$<name>')); } };
// revision: 6
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) text.replaceAll('a', many('$&')); } };
// revision: 7
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) text.replaceAll(/a/g, many("$'")); } };
// revision: 8
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) /a/g[Symbol.replace](text, many('$&')); } };
// revision: 9
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) /a/g[Symbol.replace]({ toString: () => text }, many('$`')); } };
// revision: 10
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) text.replace(/a/g, { toString: () => many('$&') }); } };
// revision: 11
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) text.replaceAll({ toString: () => 'a' }, { toString: () => many('$&') }); } };
// revision: 12
const text = 'a'.repeat(2 ** 18);
const many = (part) => part.repeat(2 ** 10);
export default { fetch() { for (;;) 'a'.replace(/a/g, '$&'.repeat(2 ** 22)); } };
