// Awaits a thenable that resolves and rejects with itself, repeatedly.
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
