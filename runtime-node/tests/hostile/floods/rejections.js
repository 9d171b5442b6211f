// Creates rejections without handlers.
// expect: cpu_limit_exceeded
// lines: 70
export default {
  async fetch(request, env, ctx) {
    for (;;) Promise.reject(new Error('left alone'));
  },
};
