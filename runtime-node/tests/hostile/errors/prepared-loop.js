// A stack that takes for ever to write, asked for while it is logged.
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
