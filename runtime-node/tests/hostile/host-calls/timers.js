// Starts timers with delays that are not numbers and callbacks that are not functions.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    let fired = 0;
    for (const delay of [NaN, -1, Infinity, 2 ** 31, 2 ** 53, '1', null, undefined, [], {}, { valueOf: () => 1 }, 1e-300]) {
      clearTimeout(setTimeout(() => fired++, delay));
      setTimeout(() => fired++, delay);
    }
    for (const delay of [Symbol(), 1n, { valueOf() { throw new Error('x'); } }, Object.create(null)]) {
      try {
        setTimeout(() => fired++, delay);
      } catch {}
    }
    for (const callback of [undefined, null, 'console.log(1)', {}, class { constructor() { throw new Error('called'); } }]) {
      try {
        setTimeout(callback, 0);
      } catch {}
    }
    for (const id of [NaN, -1, Infinity, 2 ** 64, '1', {}, [], -0]) clearTimeout(id);
    await new Promise((resolve) => setTimeout(resolve, 5));
    return new Response('held');
  },
};
