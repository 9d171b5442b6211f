// Concatenates objects that claim huge lengths, and long arrays.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
// beyond: 100
// requests: 5
export default {
  async fetch(request, env, ctx) {
    const like = { length: 2 ** 28, [Symbol.isConcatSpreadable]: true };
    try {
      [].concat(like);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 2
export default {
  async fetch(request, env, ctx) {
    try {
      [].concat(new Proxy(new Array(2 ** 28), {}));
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
      [].concat(...new Array(2 ** 10).fill(new Array(2 ** 21)));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 4
export default {
  async fetch(request, env, ctx) {
    const like = { length: 2 ** 28, [Symbol.isConcatSpreadable]: true };
    try {
      Array.prototype.concat.call(like, 1);
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
      [].concat(Object.assign(new Uint8Array(2 ** 26), { [Symbol.isConcatSpreadable]: true }));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
