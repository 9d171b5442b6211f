import { Context, Data, Effect, Layer, Schedule, Schema, Stream } from "effect";

class Missing extends Data.TaggedError("Missing") {}
class Items extends Context.Service()("Items") {}

const Item = Schema.Struct({ name: Schema.String, count: Schema.Number });
const live = Layer.succeed(Items, { find: (id) => (id === "1" ? Effect.succeed({ id }) : Effect.fail(new Missing())) });

const route = (request) =>
  Effect.gen(function* () {
    const { pathname } = new URL(request.url);
    if (pathname === "/retried") {
      let attempts = 0;
      const flaky = Effect.suspend(() => (++attempts < 3 ? Effect.fail("not yet") : Effect.succeed(attempts)));
      return Response.json({ attempts: yield* Effect.retry(flaky, Schedule.spaced("1 millis")) });
    }
    if (pathname === "/stream") {
      const lines = Stream.range(0, 2).pipe(Stream.map((line) => new TextEncoder().encode(`line ${line}\n`)));
      return new Response(Stream.toReadableStream(lines));
    }
    if (request.method === "POST") {
      const item = yield* Schema.decodeUnknownEffect(Item)(yield* Effect.promise(() => request.json()));
      return Response.json(item, { status: 201 });
    }
    const items = yield* Items;
    return Response.json(yield* items.find(pathname.slice(1)));
  }).pipe(
    Effect.catchTag("Missing", () => Effect.succeed(new Response("There is no such item", { status: 404 }))),
    Effect.catchTag("SchemaError", (error) => Effect.succeed(new Response(error.message, { status: 400 }))),
    Effect.provide(live),
  );

export default { fetch: (request) => Effect.runPromise(route(request)) };
