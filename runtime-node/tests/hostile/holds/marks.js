// Normalizes and compares long sequences of combining marks in the wrong order.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
// beyond: 60
// requests: 6
export default {
  async fetch(request, env, ctx) {
    const marks = '\u0323' + '\u0301\u0323'.repeat(2 ** 20);
    try {
      marks.normalize('NFD');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 2
export default {
  async fetch(request, env, ctx) {
    const marks = '\u0323' + '\u0301\u0323'.repeat(2 ** 20);
    try {
      marks.normalize();
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 3
export default {
  async fetch(request, env, ctx) {
    const marks = '\u0323' + '\u0301\u0323'.repeat(2 ** 20);
    try {
      new Intl.Collator('de').compare(marks, marks + 'b');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 4
export default {
  async fetch(request, env, ctx) {
    const marks = '\u0323' + '\u0301\u0323'.repeat(2 ** 20);
    try {
      marks.localeCompare(marks + 'b');
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 5
export default {
  async fetch(request, env, ctx) {
    const marks = '\u0323' + '\u0301\u0323'.repeat(2 ** 20);
    try {
      'a'.localeCompare(marks);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 6
export default {
  async fetch(request, env, ctx) {
    const marks = '\u0323' + '\u0301\u0323'.repeat(2 ** 20);
    try {
      ['a', marks, marks + 'b'].sort(new Intl.Collator().compare);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
