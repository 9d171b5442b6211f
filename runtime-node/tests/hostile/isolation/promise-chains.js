// Continues promises, timers and listeners of one invocation in another.
// expect: answer held
// requests: 10
// lines: 200
let chain = Promise.resolve();
let release;
const listeners = [];
export default {
  async fetch(request, env, ctx) {
    const before = release;
    const gate = new Promise((resolve) => (release = resolve));
    chain = chain.then(() => gate).then(() => {
      // The invocation to which this callback belongs has ended, and must not begin an operation.
      try {
        setTimeout(() => console.log('a timer of an ended invocation'), 0);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
      ctx.waitUntil(new Promise(() => {}));
    });
    addEventListener('x', () => chain.then(() => setTimeout(() => {}, 1)));
    before?.();
    dispatchEvent(new Event('x'));
    await null;
    return new Response('held');
  },
};
