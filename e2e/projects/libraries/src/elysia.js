import { Elysia, t } from "elysia";
import { CloudflareAdapter } from "elysia/adapter/cloudflare-worker";

export default new Elysia({ adapter: CloudflareAdapter })
  .get("/", ({ query, set }) => {
    set.headers["content-type"] = "text/html";
    return `<h1>Hello, ${query.name ?? "nobody"}</h1>`;
  })
  .get("/items/:id", ({ params }) => ({ id: params.id }))
  .post("/items", ({ body, status }) => status(201, { received: body }), { body: t.Object({ name: t.String() }) })
  // Elysia would turn a generator into a stream of strings, but a Response needs a stream of bytes.
  .get("/stream", () => new Response(ReadableStream.from(["line 0\n", "line 1\n"]).pipeThrough(new TextEncoderStream())))
  .compile();
