// Throws values that cannot be inspected.
// expect: worker_exception
export default {
  async fetch(request, env, ctx) {
    const { proxy, revoke } = Proxy.revocable(new Error('x'), {});
    revoke();
    Promise.reject(proxy);
    reportError(proxy);
    console.log(proxy);
    setTimeout(() => {
      throw proxy;
    });
    await new Promise((resolve) => setTimeout(resolve, 3));
    throw proxy;
  },
};
