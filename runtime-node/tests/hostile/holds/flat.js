// Flattens arrays that contain the same array again and again: the flat array has up to billions of
// elements.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
// beyond: 60
// requests: 6
export default {
  async fetch(request, env, ctx) {
    let list = [];
    for (let i = 0; i < 30; i++) list = [list, list];
    try {
      list.flat(Infinity);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 2
export default {
  async fetch(request, env, ctx) {
    let list = [];
    for (let i = 0; i < 30; i++) list = [list, list];
    try {
      list.flat(29);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 3
export default {
  async fetch(request, env, ctx) {
    try {
      new Array(2 ** 20).fill(new Array(2 ** 20)).flat();
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 4
export default {
  async fetch(request, env, ctx) {
    try {
      [1, 2].flatMap(() => new Array(2 ** 32 - 1));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 5
export default {
  async fetch(request, env, ctx) {
    try {
      new Array(2 ** 10).fill(new Array(2 ** 20)).flatMap(Object);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 6
export default {
  async fetch(request, env, ctx) {
    try {
      [new Proxy([], { get: (target, key) => (key === 'length' ? 2 ** 32 : 1) })].flat();
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
