// Creates patterns whose protocol, which is matched outside of V8, is as costly as possible.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    for (;;) {
      for (const protocol of ['(a{1000}{1000})', '((?:x{100}){100}){100})', '(\\w{200})', `(${'a?'.repeat(100)}${'a'.repeat(100)})`, '(.*.*.*.*.*s)']) {
        try {
          new URLPattern({ protocol, pathname: '/' });
        } catch {}
      }
    }
  },
};
