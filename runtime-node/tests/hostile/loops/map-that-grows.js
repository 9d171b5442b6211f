// Iterates over a Map and a Set in which each step replaces the last entry with a new one.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const set = new Set([0]);
    const map = new Map([[0, 0]]);
    map.forEach((value, key) => {
      map.delete(key);
      map.set(key + 1, 0);
      if (key === 1000) {
        for (const item of set) {
          set.delete(item);
          set.add(item + 1);
        }
      }
    });
  },
};
