// Opens as many sessions as possible, builds endless paths, and uses, in every way, the promises
// and properties of a Worker that does not exist.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: cpu_ms=2000 memory_mib=64 wall_ms=20000
// beyond: 60
// calls: OTHER
// requests: 3
export default {
  async fetch(request, env, ctx) {
    const all = [];
    for (let i = 0; i < 5_000; i++) all.push(env.OTHER.call(i, () => i, new ReadableStream()));
    const outcomes = await Promise.allSettled(all);
    if (outcomes.some(({ status }) => status === 'fulfilled')) return new Response('called');
    let property = env.OTHER.start;
    for (let i = 0; i < 2_000; i++) property = property.next;
    const results = [property(), property, env.OTHER.one().two.three(), env.OTHER.one()()(), env.OTHER.one.two];
    for (const result of results) {
      try {
        await result;
        return new Response('called');
      } catch {
        // Every call fails.
      }
    }
    const { prototype } = property.constructor;
    for (const steal of [
      () => new (Object.getPrototypeOf(property).constructor)(), () => Reflect.construct(property, []), () => prototype.then.call({}),
      () => Object.getPrototypeOf(property).then.call(() => 1), () => Object.getPrototypeOf(env.OTHER.one()).then.call(property, 1),
    ]) {
      try {
        await steal();
      } catch {
        // Each of these throws, or calls nothing.
      }
    }
    const ofBindings = Object.getPrototypeOf(env.OTHER);
    const members = Object.getPrototypeOf(ofBindings);
    Object.setPrototypeOf(ofBindings, null);
    if (env.OTHER.gone !== undefined) return new Response('found');
    for (const receiver of [{}, 1, ofBindings, members, () => 1]) {
      if (Reflect.get(members, 'stolen', receiver) !== undefined) return new Response('stolen');
    }
    Object.setPrototypeOf(ofBindings, members);
    return new Response('refused');
  },
};
