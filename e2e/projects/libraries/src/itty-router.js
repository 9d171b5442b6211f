import { AutoRouter, html, json } from "itty-router";

const router = AutoRouter();
router
  .get("/", ({ query }, env) => html(`<h1>Hello, ${query.name ?? env.GREETING}</h1>`))
  .get("/items/:id", ({ params }) => ({ id: params.id }))
  .post("/items", async (request) => json({ received: await request.json() }, { status: 201 }))
  .get("/stream", () => new Response(ReadableStream.from(["line 0\n", "line 1\n"]).pipeThrough(new TextEncoderStream())));
export default { ...router };
