// Searches and sorts arrays of long strings that differ only near the end.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
// beyond: 60
// requests: 6
export default {
  async fetch(request, env, ctx) {
    const text = 'a'.repeat(2 ** 20);
    try {
      new Array(2 ** 20).fill(text + 'a').indexOf(text + 'b');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 2
export default {
  async fetch(request, env, ctx) {
    const text = 'a'.repeat(2 ** 20);
    try {
      new Array(2 ** 20).fill(text + 'a').includes(text + 'b');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 3
export default {
  async fetch(request, env, ctx) {
    const text = 'a'.repeat(2 ** 20);
    try {
      new Array(2 ** 20).fill(text + 'a').lastIndexOf(text + 'b');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 4
export default {
  async fetch(request, env, ctx) {
    const text = 'a'.repeat(2 ** 20);
    try {
      Array.from({ length: 2 ** 12 }, (_, i) => text.slice(i % 64) + 'b').sort();
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 5
export default {
  async fetch(request, env, ctx) {
    const text = 'a'.repeat(2 ** 20);
    try {
      Array.from({ length: 2 ** 12 }, (_, i) => text.slice(i % 64) + 'b').toSorted();
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 6
export default {
  async fetch(request, env, ctx) {
    const text = 'a'.repeat(2 ** 20);
    try {
      Array.from({ length: 2 ** 12 }, (_, i) => new String(text + 'b')).sort();
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
