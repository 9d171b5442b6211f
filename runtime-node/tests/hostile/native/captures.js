// Collects many capture groups of many matches.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=64
// requests: 2
const groups = new RegExp(`a${'()'.repeat(1000)}`, 'g');
export default { fetch() { for (;;) 'a'.repeat(2 ** 18).replace(groups, () => ''); } };
// revision: the same in parts
const groups = new RegExp(`a${'()'.repeat(1000)}`, 'g');
export default {
  fetch() {
    for (;;) {
      try {
        'a'.repeat(2 ** 18).split(groups);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
  },
};
