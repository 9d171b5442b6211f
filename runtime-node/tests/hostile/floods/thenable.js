// Resolves a thenable repeatedly, with itself and with others.
// expect: cpu_limit_exceeded
export default {
  async fetch(request, env, ctx) {
    const thenable = {
      then(resolve, reject) {
        for (let i = 0; i < 10; i++) {
          resolve(thenable);
          reject(thenable);
        }
      },
    };
    await thenable;
  },
};
