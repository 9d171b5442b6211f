// Creates a chain of promises, each of which awaits the previous one.
// expect: memory_limit_exceeded
// limits: cpu_ms=20000 memory_mib=24
export default {
  async fetch(request, env, ctx) {
    let last = new Promise(() => {});
    const all = [];
    for (;;) all.push((last = last.then(() => all)));
  },
};
