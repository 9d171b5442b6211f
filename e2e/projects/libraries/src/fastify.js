import { httpServerHandler } from "cloudflare:node";
import Fastify from "fastify";
import { Readable } from "node:stream";

const app = Fastify();
app.get("/", (request, reply) => reply.type("text/html").send(`<h1>Hello, ${request.query.name ?? process.env.GREETING}</h1>`));
app.get("/items/:id", ({ params }) => ({ id: params.id }));
app.post("/items", (request, reply) => reply.code(201).send({ received: request.body }));
app.get("/stream", (request, reply) => reply.send(Readable.from(["line 0\n", "line 1\n", "line 2\n"])));
app.listen({ port: 3002 });
export default httpServerHandler({ port: 3002 });
