// Logs errors whose stacks, messages, names and causes are getters, which must not be called.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    let ran = 0;
    class Curious extends Error {
      get stack() {
        ran++;
        return 'x';
      }
      get cause() {
        ran++;
        throw new Error('asked');
      }
    }
    const error = new Error('x');
    for (const key of ['stack', 'message', 'name', 'cause']) {
      Object.defineProperty(error, key, { get: () => (ran++, 'x') });
    }
    const curious = new Curious('x');

    console.log(curious, error, [error], { error });
    console.error('%s %o', error, curious);
    return new Response(ran === 0 ? 'held' : `${ran} times`);
  },
};
