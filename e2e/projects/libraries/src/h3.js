import { H3, getQuery, html } from "h3";

const app = new H3();
app.get("/", (event) => html`<h1>Hello, ${getQuery(event).name ?? "nobody"}</h1>`);
app.get("/items/:id", (event) => ({ id: event.context.params.id }));
app.post("/items", async (event) => {
  event.res.status = 201;
  return { received: await event.req.json() };
});
app.get("/stream", () => ReadableStream.from(["line 0\n", "line 1\n", "line 2\n"]).pipeThrough(new TextEncoderStream()));
export default { fetch: (request) => app.fetch(request) };
