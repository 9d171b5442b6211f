// Parses integers of the greatest length in several bases.
// expect: cpu_limit_exceeded or memory_limit_exceeded
// limits: memory_mib=128
// beyond: 60
// requests: 5
export default {
  async fetch(request, env, ctx) {
    try {
      for (;;) parseInt('1'.repeat(2 ** 26 - 24), 3);
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
      for (;;) parseInt('1'.repeat(2 ** 26 - 24), 2);
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
      for (;;) parseInt('0'.repeat(2 ** 26 - 24), 36);
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
      for (;;) parseInt('9'.repeat(2 ** 26 - 24), undefined);
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
      for (;;) parseInt(' '.repeat(2 ** 26 - 24), 10);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
