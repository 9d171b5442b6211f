// Decodes tens of megabytes of text, and base64 and hexadecimal strings of the same length.
// expect: cpu_limit_exceeded or memory_limit_exceeded or answer refused
// limits: memory_mib=128
// beyond: 60
// requests: 7
export default {
  async fetch(request, env, ctx) {
    try {
      for (;;) new TextDecoder().decode(new Uint8Array(2 ** 26).fill(0xe2));
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
      for (;;) new TextDecoder('gb18030').decode(new Uint8Array(2 ** 25).fill(0x81));
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
      for (;;) new TextDecoder('iso-2022-jp').decode(new Uint8Array(2 ** 25).fill(0x81), { stream: true });
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
      for (;;) await new Response(new Uint8Array(2 ** 26).fill(0xe2)).text();
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
      for (;;) Uint8Array.fromBase64('A'.repeat(2 ** 25));
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
      Uint8Array.fromBase64('A'.repeat(2 ** 26 - 24));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
// revision: 7
export default {
  async fetch(request, env, ctx) {
    try {
      new Uint8Array(1).setFromHex('A'.repeat(2 ** 26 - 24));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    return new Response('refused');
  },
};
