// Searches long strings for a string that almost matches at every position.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
// beyond: 60
// requests: 8
export default {
  async fetch(request, env, ctx) {
    const almost = 'a'.repeat(2 ** 20);
    const end = 'a'.repeat(2 ** 18);
    try {
      almost.indexOf('b' + end);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 2
export default {
  async fetch(request, env, ctx) {
    const almost = 'a'.repeat(2 ** 20);
    const end = 'a'.repeat(2 ** 18);
    try {
      almost.includes('b' + end);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 3
export default {
  async fetch(request, env, ctx) {
    const almost = 'a'.repeat(2 ** 20);
    const end = 'a'.repeat(2 ** 18);
    try {
      almost.lastIndexOf(end + 'b');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 4
export default {
  async fetch(request, env, ctx) {
    const almost = 'a'.repeat(2 ** 20);
    const end = 'a'.repeat(2 ** 18);
    try {
      almost.split('b' + end);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 5
export default {
  async fetch(request, env, ctx) {
    const almost = 'a'.repeat(2 ** 20);
    const end = 'a'.repeat(2 ** 18);
    try {
      almost.replace('b' + end, '');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 6
export default {
  async fetch(request, env, ctx) {
    const almost = 'a'.repeat(2 ** 20);
    const end = 'a'.repeat(2 ** 18);
    try {
      almost.replaceAll('b' + end, '');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 7
export default {
  async fetch(request, env, ctx) {
    const almost = 'a'.repeat(2 ** 20);
    const end = 'a'.repeat(2 ** 18);
    try {
      String.prototype.indexOf.call([almost], ['b' + end]);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 8
export default {
  async fetch(request, env, ctx) {
    const almost = 'a'.repeat(2 ** 20);
    try {
      for (let text = almost; ; text += almost) text.lastIndexOf('aab');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
