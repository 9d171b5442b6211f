// Servers and libraries, each in a Worker of one module, `src/NAME.js`. They share their packages.
//
// `needs` lists the variables of a Worker that have the URLs of other servers: a database, or the
// origin (`ORIGIN`), which stands in for third-party services.
//
// `stopped` marks a project that is known not to run: `by` states the cause, and `error` is a part
// of the error.

const greeting = { path: "/", type: "text/html", has: "<h1>Hello, Hello from env</h1>" };
const named = { path: "/?name=Ada", type: "text/html", has: "<h1>Hello, Ada</h1>" };
const item = { path: "/items/7", type: "application/json", json: { id: "7" } };
const created = { method: "POST", path: "/items", send: { name: "plane" }, status: 201, json: { received: { name: "plane" } } };
const stream = { path: "/stream", has: ["line 0", "line 1"], streamed: true };
const missing = { path: "/missing", status: 404 };
const PNG = "89504e470d0a1a0a";

const query = (text) => ({ method: "POST", path: "/graphql", type: "json", send: { query: text } });

export default [
  { name: "hono", package: "hono", requests: [{ ...greeting, expect: { "x-frame-options": "SAMEORIGIN" } }, named, item, created, { ...stream, type: "text/event-stream" }, missing] },
  { name: "express", package: "express", requests: [greeting, named, item, created, stream, missing, { path: "/broken", status: 500 }] },
  { name: "koa", package: "koa", requests: [{ ...greeting, expect: { "x-served-by": "koa" } }, named, item, created, stream, missing] },
  { name: "fastify", package: "fastify", requests: [greeting, named, item, created, stream, { ...missing, has: "Route GET:/missing not found" }] },
  { name: "h3", package: "h3", requests: [named, item, created, stream, missing] },
  {
    name: "elysia",
    package: "elysia",
    requests: [named, item, created, stream, missing, { method: "POST", path: "/items", send: { name: 1 }, status: 422 }],
  },
  { name: "itty-router", package: "itty-router", requests: [greeting, named, item, created, stream, missing] },
  {
    name: "supabase",
    title: "supabase-js",
    package: "@supabase/supabase-js",
    needs: ["ORIGIN"],
    requests: [
      { path: "/rows", json: { data: [{ name: "Arica" }, { name: "Iquique" }], count: 5, error: null } },
      { path: "/sign-in", json: { user: "ada@example.com" } },
      { path: "/missing", status: 404, json: { code: "42P01", message: "relation does not exist" } },
    ],
  },
  {
    name: "stripe",
    package: "stripe",
    needs: ["ORIGIN"],
    requests: [
      { path: "/customers", json: ["ada@example.com", "bob@example.com"] },
      {
        method: "POST",
        path: "/webhook",
        // The HMAC-SHA256 of the body with the Worker's secret.
        headers: { "stripe-signature": "t=1700000000,v1=a7d3e0ea43f37abd2eefdfdab50af8ee40077325d2a895a55dbae101941d4f03" },
        send: '{"id":"evt_1","object":"event","type":"invoice.paid"}',
        json: { type: "invoice.paid" },
      },
      { method: "POST", path: "/webhook", headers: { "stripe-signature": "t=1,v1=00" }, send: "{}", status: 400, json: { error: "StripeSignatureVerificationError" } },
      { path: "/missing", status: 404, json: { type: "StripeInvalidRequestError", message: "No such customer" } },
    ],
  },
  {
    name: "openai",
    title: "openai SDK",
    package: "openai",
    needs: ["ORIGIN"],
    requests: [
      { path: "/answer", json: { text: "Hello there", tokens: 7 } },
      { path: "/stream", has: "Hello there", streamed: true },
      { path: "/missing", status: 404, json: { name: "NotFoundError" } },
    ],
  },
  {
    name: "langchain",
    title: "LangChain",
    package: "@langchain/core",
    needs: ["ORIGIN"],
    requests: [
      { path: "/answer", json: { text: "Hello there" } },
      { path: "/stream", has: "Hello there", streamed: true },
      { path: "/tool", json: { sum: "5" } },
      { path: "/refused", status: 400, has: "did not match expected schema" },
    ],
  },
  {
    name: "apollo",
    title: "Apollo Server",
    package: "@apollo/server",
    requests: [
      { ...query("{ greeting books { title pages(per: 2) } }"), json: { data: { greeting: "Hello from env", books: [{ title: "Joinery", pages: 14 }] } } },
      { ...query('mutation { add(title: "Dowels") { title } }'), json: { data: { add: { title: "Dowels" } } } },
      { ...query("{ nothing }"), status: 400, has: "GRAPHQL_VALIDATION_FAILED" },
      missing,
    ],
  },
  {
    name: "graphql-yoga",
    title: "GraphQL Yoga",
    package: "graphql-yoga",
    requests: [
      { ...query("{ greeting }"), json: { data: { greeting: "Hello from env" } } },
      { ...query("subscription { lines }"), headers: { accept: "text/event-stream" }, type: "text/event-stream", has: ["line 0", "line 2"], streamed: true },
      { path: "/graphql", headers: { accept: "text/html" }, type: "text/html", has: "<title>Yoga GraphiQL</title>" },
      missing,
    ],
  },
  {
    name: "clerk",
    title: "Clerk backend",
    package: "@clerk/backend",
    needs: ["ORIGIN"],
    requests: [
      { path: "/user", json: { id: "user_1", firstName: "Ada" } },
      { path: "/session", json: { sub: "user_1", sid: "sess_1" } },
      { path: "/forged", status: 401, json: { reason: "token-invalid" } },
    ],
  },
  {
    name: "sentry",
    title: "Sentry",
    package: "@sentry/cloudflare",
    needs: ["ORIGIN"],
    requests: [
      { path: "/", json: { traced: true } },
      { path: "/captured", has: /"id":"[0-9a-f]{32}"/ },
      { path: "/broken", status: 500 },
      { path: "/events", has: ["event", "span"] },
    ],
  },
  {
    name: "effect",
    package: "effect",
    requests: [
      { path: "/1", json: { id: "1" } },
      { path: "/retried", json: { attempts: 3 } },
      { method: "POST", path: "/", send: { name: "plane", count: 2 }, status: 201, json: { name: "plane", count: 2 } },
      { method: "POST", path: "/", send: { name: "plane", count: "two" }, status: 400, has: "count" },
      { ...stream, has: ["line 0", "line 2"] },
      missing,
    ],
  },
  {
    name: "trpc",
    title: "tRPC with Zod",
    package: "@trpc/server",
    requests: [
      { path: `/trpc/greet?input=${encodeURIComponent('{"name":"Ada"}')}`, json: { result: { data: "Hello from env, Ada" } } },
      { method: "POST", path: "/trpc/add", send: [1, 2, 3], json: { result: { data: 6 } } },
      { path: `/trpc/greet?input=${encodeURIComponent('{"name":""}')}`, status: 400, has: "too_small" },
      { path: "/trpc/lines", headers: { accept: "text/event-stream" }, has: ["line 0", "line 2"], streamed: true },
      { path: "/trpc/missing", status: 404, has: "NOT_FOUND" },
    ],
  },
  {
    name: "jose",
    package: "jose",
    requests: [
      { path: "/ES256", json: "reader" },
      { path: "/EdDSA", json: "reader" },
      { path: "/RS256", json: "reader" },
      { path: "/ES256?forged", status: 401, json: { code: "ERR_JWS_SIGNATURE_VERIFICATION_FAILED" } },
      { path: "/encrypt", json: { parts: 5, text: "a secret" } },
      missing,
    ],
  },
  {
    name: "bcryptjs",
    package: "bcryptjs",
    requests: [{ method: "POST", path: "/sign-in", send: { password: "secret" }, json: { matches: true, rounds: 6, known: true } }, missing],
  },
  {
    name: "pg",
    title: "pg with PostgreSQL",
    package: "pg",
    needs: ["POSTGRES"],
    requests: [
      { path: "/rows", has: ['"n":1', '"hash":"c4ca4238a0b923820dcc509a6f75849b"', '"n":3'] },
      { path: "/types", json: { json: { a: [1] }, big: "12345678901234", list: ["x", "y"], isDate: true } },
      { path: "/rolled-back", json: { count: 0 } },
      { path: "/missing", status: 404, json: { code: "42P01", message: 'relation "missing" does not exist' } },
    ],
  },
  {
    name: "postgres",
    title: "postgres.js with PostgreSQL",
    package: "postgres",
    needs: ["POSTGRES"],
    requests: [
      { path: "/rows", json: [{ n: 1 }, { n: 2 }, { n: 3 }] },
      { path: "/cursor", json: [2, 2, 1] },
      { path: "/transaction", json: { sum: 3 } },
      { path: "/missing", status: 404, json: { code: "42P01", name: "PostgresError" } },
    ],
  },
  {
    name: "drizzle",
    title: "Drizzle with PostgreSQL",
    package: "drizzle-orm",
    needs: ["POSTGRES"],
    requests: [
      { path: "/cities", json: [{ id: 1, name: "Arica" }, { id: 2, name: "Iquique" }] },
      { path: "/count", json: { count: 1 } },
      { path: "/Iquique", json: { id: 2, name: "Iquique" } },
      missing,
    ],
  },
  {
    name: "mysql2",
    title: "mysql2 with MariaDB",
    package: "mysql2",
    needs: ["MYSQL"],
    requests: [
      { path: "/rows", json: [{ n: 42, text: "Ä" }] },
      { path: "/transaction", json: { n: 2 } },
      { path: "/missing", status: 404, json: { code: "ER_NO_SUCH_TABLE" } },
    ],
  },
  {
    name: "ioredis",
    title: "ioredis with Redis",
    package: "ioredis",
    needs: ["REDIS"],
    requests: [
      { path: "/visits", json: { visits: 42, text: "42" } },
      { path: "/pipeline", has: '{"name":"Arica","people":"222"}' },
      { path: "/script", json: ["key", "value"] },
      { path: "/missing", status: 404, has: "unknown command" },
    ],
  },
  {
    name: "mongodb",
    title: "mongodb with FerretDB",
    package: "mongodb",
    needs: ["MONGODB"],
    requests: [
      { path: "/large", json: [{ name: "Arica", people: 222 }] },
      { path: "/grown", json: { people: 223 } },
      { path: "/Iquique", json: "Iquique" },
      missing,
    ],
  },
  {
    name: "xlsx",
    title: "SheetJS",
    package: "xlsx",
    requests: [
      { path: "/book.xlsx", type: "spreadsheetml", starts: "504b0304" },
      { path: "/rows", json: { SheetNames: ["Cities"], rows: [{ name: "Arica", people: 222 }, { name: "Iquique", people: 191 }] } },
      missing,
    ],
  },
  {
    name: "pdf-lib",
    package: "pdf-lib",
    requests: [
      { path: "/invoice.pdf?name=Ada", type: "application/pdf", starts: "255044462d312e37", has: "%%EOF" },
      { path: "/read", json: { title: "Invoice", pages: 1, size: { width: 300, height: 200 } } },
      missing,
    ],
  },
  {
    name: "photon",
    title: "Photon, images in WebAssembly",
    package: "@cf-wasm/photon",
    // The header of the image states the width 16 and the height 8.
    requests: [{ path: "/small.png", type: "image/png", starts: `${PNG}0000000d494844520000001000000008` }, missing],
  },
  {
    name: "resvg",
    title: "resvg, SVG in WebAssembly",
    package: "@resvg/resvg-wasm",
    requests: [
      { path: "/circle.png?width=32", type: "image/png", starts: `${PNG}0000000d494844520000002000000020` },
      { path: "/circle.png", starts: `${PNG}0000000d494844520000006400000064` },
      missing,
    ],
  },
  {
    name: "marked",
    title: "marked with highlight.js",
    package: "marked",
    requests: [
      {
        method: "POST",
        path: "/",
        send: "# Joints\n\n| a | b |\n|---|---|\n| 1 | *2* |\n\n```js\nconst a = 1;\n```\n",
        has: ["<h1>Joints</h1>", "<td><em>2</em></td>", '<span class="hljs-keyword">const</span>'],
      },
      missing,
    ],
  },
  {
    name: "cheerio",
    package: "cheerio",
    needs: ["ORIGIN"],
    requests: [
      { path: "/table.html", json: { title: "CITIES", rows: [["Arica", "222"], ["Iquique", "191"]], html: '<h1 class="title">CITIES</h1>' } },
      { path: "/missing", status: 404, json: { status: 404 } },
    ],
  },
  {
    name: "date-fns",
    package: "date-fns",
    requests: [
      { path: "/due?date=2026-10-01", has: "Tuesday, 6 October 2026" },
      { path: "/due/de?date=2026-10-01", has: "Dienstag, 6. Oktober 2026" },
      { path: "/until?date=2026-10-01", json: { text: "3 months", months: 3 } },
      { path: "/due?date=soon", status: 400 },
      { path: "/missing?date=2026-10-01", status: 404 },
    ],
  },
];
