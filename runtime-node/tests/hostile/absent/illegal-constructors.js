// Calls constructors that only the platform may call.
// expect: answer held
export default {
  async fetch(request, env, ctx) {
    const keys = [undefined, null, {}, Object.create(null), [], Symbol(), ctx, request, { __proto__: null }];
    for (const { constructor } of [ctx, crypto, performance, navigator, new AbortController().signal]) {
      for (const key of keys) {
        for (const make of [() => new constructor(key, 1), () => Reflect.construct(constructor, [key, 1], Object),
          () => new (class extends constructor {})(key, 1), () => constructor.call({}, key, 1)]) {
          try {
            make();
            return new Response(constructor.name);
          } catch (error) {
            if (!(error instanceof TypeError)) throw error;
          }
        }
      }
    }
    return new Response('held');
  },
};
