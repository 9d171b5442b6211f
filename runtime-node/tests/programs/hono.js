import { Hono } from "hono";
import { basicAuth } from "hono/basic-auth";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { cors } from "hono/cors";
import { etag } from "hono/etag";
import { HTTPException } from "hono/http-exception";
import { jwt, sign } from "hono/jwt";
import { streamSSE, streamText } from "hono/streaming";
import { validator } from "hono/validator";

const SECRET = "of the tests";
const app = new Hono();

app.use("/api/*", cors({ origin: "https://front.test" }));
app.use("/tagged", etag());
app.use("/private/*", basicAuth({ username: "ada", password: "lovelace" }));
app.use("/token/*", jwt({ secret: SECRET, alg: "HS256" }));
app.get("/", (c) => c.text("Hello Hono!"));
app.get("/api/posts/:id{[0-9]+}", (c) => c.json({ id: Number(c.req.param("id")), page: c.req.query("page") ?? null }));
app.post(
  "/api/posts",
  validator("json", (value, c) => (typeof value.title === "string" ? value : c.json({ error: "title" }, 400))),
  (c) => c.json({ created: c.req.valid("json").title }, 201, { location: "/api/posts/7" }),
);
app.post("/form", async (c) => {
  const form = await c.req.parseBody();
  return c.text(`${form.name} ${form.file.name} ${await form.file.text()}`);
});
app.get("/tagged", (c) => c.text("the same each time"));
app.get("/private/page", (c) => c.text("in"));
app.get("/sign", async (c) => c.text(await sign({ sub: "ada", exp: 4102444800 }, SECRET)));
app.get("/token/who", (c) => c.text(c.get("jwtPayload").sub));
app.get("/cookie", (c) => {
  setCookie(c, "seen", "yes", { httpOnly: true, maxAge: 60, path: "/" });
  deleteCookie(c, "old");
  return c.text(getCookie(c, "seen") ?? "first visit");
});
app.get("/text", (c) => streamText(c, async (stream) => {
  for (const part of ["one ", "two ", "three"]) {
    await stream.write(part);
    await stream.sleep(1);
  }
}));
app.get("/events", (c) => streamSSE(c, async (stream) => {
  for (let id = 0; id < 3; id++) await stream.writeSSE({ id: String(id), event: "tick", data: `at ${id}` });
}));
app.get("/teapot", () => {
  throw new HTTPException(418, { message: "short and stout" });
});
app.get("/throws", () => {
  throw new Error("on purpose");
});
app.onError((error, c) => (error instanceof HTTPException ? error.getResponse() : c.text(`caught: ${error.message}`, 500)));
app.notFound((c) => c.text("nothing here", 404));

export default app;
