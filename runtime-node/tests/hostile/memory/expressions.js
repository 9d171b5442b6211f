// Compiles and keeps regular expressions and functions.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (let i = 0;; i++) {
      all.push(new Array(1000).fill(i));
      const expression = new RegExp(`(a|b${i})*c`);
      expression.test('x');
      all.push(expression, new Function(`return ${i}`)());
    }
  },
};
