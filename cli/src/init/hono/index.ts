import { Hono } from "hono";

type Env = { GREETING: string };

const app = new Hono<{ Bindings: Env }>();

app.get("/", (context) => context.text(`${context.env.GREETING} from NAME\n`));
app.get("/users/:id", (context) => context.json({ id: context.req.param("id") }));
app.post("/users", async (context) => context.json(await context.req.json(), 201));

export default app;
