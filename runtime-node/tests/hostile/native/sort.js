// Repeatedly sorts a long array of numbers.
// expect: cpu_limit_exceeded
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const numbers = new Float64Array(2 ** 21);
    for (;;) {
      for (let i = 0; i < 2 ** 16; i++) numbers[i * 31] = -i;
      numbers.sort();
    }
  },
};
