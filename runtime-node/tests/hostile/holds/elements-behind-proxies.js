// Lists the elements of a long array behind proxies without traps.
// expect: answer refused
// limits: memory_mib=128
export default {
  async fetch(request, env, ctx) {
    const proxy = new Proxy(new Proxy(new Uint8Array(2 ** 26), {}), {});
    for (const use of [
      () => Object.keys(proxy), () => Object.values(proxy), () => Reflect.ownKeys(proxy), () => Object.assign({}, proxy),
      () => Object.getOwnPropertyDescriptors(Proxy.revocable(proxy, {}).proxy),
    ]) {
      try {
        use();
        return new Response(`${use} went through`);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
    }
    return new Response('refused');
  },
};
