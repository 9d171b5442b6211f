// Logs an error whose stack takes forever to format.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    Error.prepareStackTrace = () => {
      for (;;);
    };
    console.log(new Error('x'));
    throw new Error('y');
  },
};
