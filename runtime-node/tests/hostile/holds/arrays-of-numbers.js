// Creates and fills typed arrays from array-likes, strings and arrays with at least 2²⁵ elements.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
// beyond: 60
// requests: 6
export default {
  async fetch(request, env, ctx) {
    try {
      Uint8Array.from({ length: 2 ** 26 });
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
      Uint8Array.from('1'.repeat(2 ** 26 - 24));
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
      new Uint8Array(2 ** 25).set({ length: 2 ** 25 });
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
      new Uint8Array(2 ** 25).set('1'.repeat(2 ** 25));
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
      Float64Array.from(new Uint8Array(2 ** 26));
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
      Uint8Array.from(new Array(2 ** 32 - 1));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
