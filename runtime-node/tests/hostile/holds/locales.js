// Passes very long names and lists of locales.
// expect: answer refused
// limits: memory_mib=128 cpu_ms=100
// beyond: 60
// requests: 16
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      new Intl.Collator(locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 2
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      new Intl.NumberFormat([locale]);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 3
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      Intl.DateTimeFormat(locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 4
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      new Intl.Locale(locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 5
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      new Intl.Locale('de', { variants: locale.slice(3) });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 6
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      Intl.getCanonicalLocales(locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 7
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      Intl.ListFormat.supportedLocalesOf(locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 8
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      (1).toLocaleString(locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 9
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      new Date().toLocaleDateString(locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 10
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      'a'.localeCompare('b', locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 11
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      'a'.toLocaleUpperCase(locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 12
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      new Intl.DisplayNames('en', { type: 'language' }).of(locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 13
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      [1].toLocaleString(locale);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 14
export default {
  async fetch(request, env, ctx) {
    try {
      1n.toLocaleString({ length: 2 ** 32 - 1 });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 15
export default {
  async fetch(request, env, ctx) {
    try {
      new Intl.Segmenter(Array(2 ** 20).fill('de'));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 16
export default {
  async fetch(request, env, ctx) {
    const locale = 'de-' + Array.from({ length: 30000 }, (_, i) => `a${1e4 + i}`).join('-');
    try {
      new Intl.PluralRules({ length: 1, 0: { toString: () => locale } });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
