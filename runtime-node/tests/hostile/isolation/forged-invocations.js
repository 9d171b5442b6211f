// Looks for identifiers of invocations, with which it could reach other invocations' requests, and
// tries to change env.
// expect: answer held
// at once: 10
// requests: 2
export default {
  async fetch(request, env, ctx) {
    globalThis.seen ??= [];
    const mine = new URL(request.url).pathname;
    globalThis.seen.push(request, ctx);
    for (const other of globalThis.seen) {
      for (const key of Reflect.ownKeys(Object.getPrototypeOf(other))) {
        if (typeof key === 'string' && /id|invocation|internal/i.test(key)) return new Response(key);
      }
      if (Reflect.ownKeys(other).length > 0) return new Response('own keys');
    }
    if (Object.isExtensible(env) || Reflect.set(env, 'SECRET', 'forged') || Reflect.deleteProperty(env, 'SECRET')) return new Response('env');
    try {
      Object.defineProperty(env, 'SECRET', { value: 'forged' });
      return new Response('defined');
    } catch {}
    if (env.SECRET !== "the hostile Worker's own") return new Response('not mine');
    await null;
    return new Response(mine === '/' ? 'held' : mine);
  },
};
