import { httpServerHandler } from "cloudflare:node";
import Koa from "koa";
import { Readable } from "node:stream";

const app = new Koa();
app.use(async (context, next) => {
  await next();
  context.set("x-served-by", "koa");
});
app.use(async (context) => {
  const item = /^\/items\/(\w+)$/.exec(context.path);
  if (context.path === "/") context.body = `<h1>Hello, ${context.query.name ?? process.env.GREETING}</h1>`;
  else if (item) context.body = { id: item[1] };
  else if (context.path === "/stream") context.body = Readable.from(["line 0\n", "line 1\n", "line 2\n"]);
  else if (context.path === "/items" && context.method === "POST") {
    const pieces = await context.req.setEncoding("utf8").toArray();
    context.status = 201;
    context.body = { received: JSON.parse(pieces.join("")) };
  }
});
app.listen(3001);
export default httpServerHandler({ port: 3001 });
