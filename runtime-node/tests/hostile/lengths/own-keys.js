// Uses proxies that report a huge number of keys.
// expect: cpu_limit_exceeded or memory_limit_exceeded or worker_exception
// beyond: 150
export default {
  async fetch(request, env, ctx) {
    Reflect.ownKeys(new Proxy({}, { ownKeys: () => ({ length: 2 ** 24 }) }));
    Reflect.ownKeys(new Proxy({}, { ownKeys: () => Array.from({ length: 1e5 }, (_, i) => `k${i % 10}`) }));
  },
};
