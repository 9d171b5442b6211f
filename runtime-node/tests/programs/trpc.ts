import { TRPCError, initTRPC, tracked } from "@trpc/server";
import { fetchRequestHandler } from "@trpc/server/adapters/fetch";
import { z } from "zod";

type Context = { user: string | null; headers: Headers };

const t = initTRPC.context<Context>().create({ sse: { ping: { enabled: false } } });
const own = t.procedure.use(({ ctx, next }) => {
  if (ctx.user === null) throw new TRPCError({ code: "UNAUTHORIZED", message: "who are you?" });
  return next({ ctx: { ...ctx, user: ctx.user } });
});
const after = <T>(value: T) => new Promise<T>((resolve) => setTimeout(resolve, 5, value));

const router = t.router({
  greet: t.procedure.input(z.string().min(2)).query(({ input }) => `Hello, ${input}!`),
  slow: t.procedure.query(() => ({ now: "at once", later: after("it came later") })),
  me: own.query(({ ctx }) => ctx.user),
  posts: t.router({
    add: own.input(z.object({ title: z.string(), at: z.coerce.date() })).mutation(({ input, ctx }) => {
      ctx.headers.set("x-added", input.title);
      return { ...input, by: ctx.user };
    }),
  }),
  countdown: t.procedure.input(z.number()).subscription(async function* ({ input }) {
    for (let i = input; i >= 0; i--) yield tracked(String(i), { left: await after(i) });
  }),
  upload: t.procedure.input(z.instanceof(FormData)).mutation(async ({ input }) => {
    const file = input.get("file") as File;
    return `${file.name}: ${await file.text()}`;
  }),
});

export default {
  fetch: (request: Request) =>
    fetchRequestHandler({
      endpoint: "/trpc",
      req: request,
      router,
      createContext: ({ req, resHeaders }) => ({ user: req.headers.get("authorization"), headers: resHeaders }),
    }),
};
