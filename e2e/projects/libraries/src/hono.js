import { Hono } from "hono";
import { html } from "hono/html";
import { secureHeaders } from "hono/secure-headers";
import { streamSSE } from "hono/streaming";

const app = new Hono();
app.use(secureHeaders());
app.get("/", (context) => context.html(html`<h1>Hello, ${context.req.query("name") ?? context.env.GREETING}</h1>`));
app.get("/items/:id", (context) => context.json({ id: context.req.param("id") }));
app.post("/items", async (context) => context.json({ received: await context.req.json() }, 201));
app.get("/stream", (context) =>
  streamSSE(context, async (stream) => {
    for (let id = 0; id < 3; id++) {
      await stream.writeSSE({ id: String(id), data: `line ${id}` });
      await stream.sleep(10);
    }
  }),
);
export default app;
