// A Worker that does typical work. Each path selects a kind of work.
const CHUNKS = 10_000;
// Number of times that a request repeats work on a MiB, so that the cost of serving the request is
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

// Returns a MiB of bytes that compress well. The first request that needs them makes them, so that
// the module starts fast enough for a shard: a slow start would keep the Worker in a lane, and
// the kernel schedules lanes after the router, which shares their CPU.
let mib;
const bytes = () => (mib ??= new Uint8Array(1 << 20).map((_, i) => (i * 7 + (i >> 8)) & 63));

// ---- Computations, as in JavaScript benchmarks

// Draws spheres by ray tracing, which needs numbers and short-lived objects.
function traceRays(size) {
  const spheres = Array.from({ length: 12 }, (_, i) => ({
    at: { x: Math.sin(i) * 3, y: Math.cos(i * 1.7) * 3, z: 8 + (i % 4) }, radius: 0.5 + (i % 3) / 2, shade: (i + 1) / 12,
  }));
  const minus = (a, b) => ({ x: a.x - b.x, y: a.y - b.y, z: a.z - b.z });
  const dot = (a, b) => a.x * b.x + a.y * b.y + a.z * b.z;
  const origin = { x: 0, y: 0, z: 0 };
  let light = 0;
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      const ray = { x: (column / size - 0.5) * 2, y: (row / size - 0.5) * 2, z: 1 };
      let nearest = Infinity;
      let shade = 0;
      for (const sphere of spheres) {
        const from = minus(origin, sphere.at);
        const a = dot(ray, ray), b = 2 * dot(from, ray), c = dot(from, from) - sphere.radius ** 2;
        const root = b * b - 4 * a * c;
        if (root < 0) continue;
        const distance = (-b - Math.sqrt(root)) / (2 * a);
        if (distance > 0 && distance < nearest) [nearest, shade] = [distance, sphere.shade];
      }
      light += shade;
    }
  }
  return light;
}

// Interprets arithmetic expressions, which needs regular expressions, strings and closures.
function interpret(lines) {
  const compile = (text) => {
    const tokens = text.match(/\d+|[a-z]+|[-+*()]/g);
    let at = 0;
    const primary = () => {
      const token = tokens[at++];
      if (token === "(") {
        const inner = sum();
        at++;
        return inner;
      }
      if (/^\d/.test(token)) {
        const value = Number(token);
        return () => value;
      }
      return (scope) => scope.get(token) ?? 0;
    };
    const product = () => {
      let left = primary();
      while (tokens[at] === "*") {
        at++;
        const [a, b] = [left, primary()];
        left = (scope) => (a(scope) * b(scope)) % 1_000_003;
      }
      return left;
    };
    const sum = () => {
      let left = product();
      while (tokens[at] === "+" || tokens[at] === "-") {
        const sign = tokens[at++] === "+" ? 1 : -1;
        const [a, b] = [left, product()];
        left = (scope) => a(scope) + sign * b(scope);
      }
      return left;
    };
    return sum();
  };
  const scope = new Map();
  for (let i = 0; i < lines; i++) {
    const name = "abcdefgh"[i % 8];
    const value = compile(`(${name} + ${i}) * ${i % 17} - (b * (c + ${i % 5}) - d) + a * ${i % 3}`);
    scope.set(name, value(scope));
  }
  return [...scope].map(([name, value]) => `${name}=${value}`).join(" ");
}

// Finds the cheapest paths through a grid, which needs arrays, a heap, a map and sorting.
function findPaths(size) {
  const cost = (at) => ((at * 7919) % 13) + 1;
  const best = new Map([[0, 0]]);
  const heap = [{ at: 0, distance: 0 }];
  const push = (entry) => {
    let i = heap.push(entry) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (heap[parent].distance <= heap[i].distance) return;
      [heap[parent], heap[i]] = [heap[i], heap[parent]];
      i = parent;
    }
  };
  const pop = () => {
    const first = heap[0], last = heap.pop();
    if (heap.length > 0) {
      heap[0] = last;
      for (let i = 0; ;) {
        let least = i;
        for (const child of [2 * i + 1, 2 * i + 2]) {
          if (child < heap.length && heap[child].distance < heap[least].distance) least = child;
        }
        if (least === i) break;
        [heap[i], heap[least]] = [heap[least], heap[i]];
        i = least;
      }
    }
    return first;
  };
  while (heap.length > 0) {
    const { at, distance } = pop();
    if (distance > best.get(at)) continue;
    const [x, y] = [at % size, Math.floor(at / size)];
    for (const [nextX, nextY] of [[x + 1, y], [x - 1, y], [x, y + 1], [x, y - 1]]) {
      if (nextX < 0 || nextY < 0 || nextX >= size || nextY >= size) continue;
      const next = nextY * size + nextX;
      const longer = distance + cost(next);
      if (longer < (best.get(next) ?? Infinity)) {
        best.set(next, longer);
        push({ at: next, distance: longer });
      }
    }
  }
  return [...best.values()].sort((a, b) => b - a)[0];
}

const paths = {
  length: async (request) => new Response(String((await request.arrayBuffer()).byteLength)),
  rays: () => new Response(`${traceRays(360)}\n`),

  interpreter: () => new Response(`${interpret(6_000)}\n`),

  "shortest-paths": () => new Response(`${findPaths(120)}\n`),

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
    for (let i = 0; i < TIMES; i++) digest = await crypto.subtle.digest("SHA-256", bytes());
    return new Response(new Uint8Array(digest).toHex());
  },

  async gzip() {
    let length = 0;
    for (let i = 0; i < TIMES; i++) {
      const zipped = new Response(bytes()).body.pipeThrough(new CompressionStream("gzip"));
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
