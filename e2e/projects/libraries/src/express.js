import { httpServerHandler } from "cloudflare:node";
import express from "express";

const app = express();
app.use(express.json());
app.get("/", (request, response) => response.send(`<h1>Hello, ${request.query.name ?? process.env.GREETING}</h1>`));
app.get("/items/:id", (request, response) => response.json({ id: request.params.id }));
app.post("/items", (request, response) => response.status(201).json({ received: request.body }));
app.get("/stream", (request, response) => {
  let line = 0;
  const timer = setInterval(() => {
    response.write(`line ${line++}\n`);
    if (line === 3) {
      clearInterval(timer);
      response.end();
    }
  }, 10);
});
app.get("/broken", () => {
  throw new Error("on purpose");
});
app.listen(3000);
export default httpServerHandler({ port: 3000 });
