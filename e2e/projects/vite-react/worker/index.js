import { Hono } from "hono";
import { streamText } from "hono/streaming";

const app = new Hono().basePath("/api");
app.get("/greeting", (context) => context.json({ greeting: context.env.GREETING }));
app.post("/items", async (context) => context.json({ received: await context.req.json() }, 201));
app.get("/stream", (context) =>
  streamText(context, async (stream) => {
    for (let line = 0; line < 3; line++) {
      await stream.writeln(`line ${line}`);
      await stream.sleep(10);
    }
  }),
);
export default app;
