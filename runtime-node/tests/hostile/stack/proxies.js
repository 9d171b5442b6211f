// Wraps a hundred thousand proxies around each other.
// expect: worker_exception
// limits: cpu_ms=2000 memory_mib=64
export default {
  async fetch(request, env, ctx) {
    let proxy = {};
    for (let i = 0; i < 1e5; i++) proxy = new Proxy(proxy, {});
    proxy.x;
  },
};
