// A Worker with typical work, one kind for each path.
const MIB = new Uint8Array(1 << 20).map((_, i) => (i * 7 + (i >> 8)) & 63);
const CHUNKS = 10_000;
// The number of times that a request repeats work on a MiB, so that the cost of serving it is
// negligible.
const TIMES = 8;
const ORDERS = {
  page: 1,
  orders: Array.from({ length: 11 }, (_, i) => ({
    id: 4711 + i,
    customer: `Customer ${i}`,
    total: 99.5 * (i + 1),
    paid: i % 2 === 0,
    tags: ["new", "gift"],
  })),
};

const paths = {
  json: () => Response.json(ORDERS),

  headers(request) {
    const headers = new Headers();
    for (const [name, value] of request.headers) {
      if (name.startsWith("x-echo-")) headers.append(name, value);
    }
    return new Response(null, { headers });
  },

  echo: async (request) => Response.json(await request.json()),

  async digest() {
    let digest;
    for (let i = 0; i < TIMES; i++) digest = await crypto.subtle.digest("SHA-256", MIB);
    return new Response(new Uint8Array(digest).toHex());
  },

  async gzip() {
    let length = 0;
    for (let i = 0; i < TIMES; i++) {
      const zipped = new Response(MIB).body.pipeThrough(new CompressionStream("gzip"));
      for await (const chunk of zipped) length += chunk.length;
    }
    return new Response(`${length}\n`);
  },

  async pipe() {
    let sent = 0;
    let taken = 0;
    const source = new ReadableStream({
      pull(controller) {
        if (sent === CHUNKS) controller.close();
        else controller.enqueue(sent++);
      },
    });
    await source.pipeTo(new WritableStream({ write: () => void taken++ }));
    return new Response(`${taken}\n`);
  },
};

export default {
  fetch(request) {
    const { pathname } = new URL(request.url);
    return paths[pathname.slice(1)]?.(request) ?? new Response(`Hello from ${pathname}\n`);
  },
};
