import { initTRPC, TRPCError } from "@trpc/server";
import { fetchRequestHandler } from "@trpc/server/adapters/fetch";
import { z } from "zod";

const t = initTRPC.context().create();
const router = t.router({
  greet: t.procedure.input(z.object({ name: z.string().min(1) })).query(({ input, ctx }) => `${ctx.greeting}, ${input.name}`),
  add: t.procedure.input(z.array(z.number())).mutation(({ input }) => input.reduce((sum, next) => sum + next, 0)),
  lines: t.procedure.subscription(async function* () {
    for (let line = 0; line < 3; line++) yield `line ${line}`;
  }),
  missing: t.procedure.query(() => {
    throw new TRPCError({ code: "NOT_FOUND" });
  }),
});

export default {
  fetch: (request, env) =>
    fetchRequestHandler({ endpoint: "/trpc", req: request, router, createContext: () => ({ greeting: env.GREETING }) }),
};
