import { Await, createFileRoute } from "@tanstack/react-router";
import { createServerFn } from "@tanstack/react-start";
import { env } from "cloudflare:workers";
import { Suspense } from "react";

const greeting = createServerFn().handler(() => env.GREETING);

export const Route = createFileRoute("/")({
  validateSearch: ({ name }) => ({ name }),
  loaderDeps: ({ search }) => search,
  loader: async ({ deps }) => ({
    greeting: await greeting(),
    name: deps.name ?? "nobody",
    late: new Promise((resolve) => setTimeout(() => resolve("it came later"), 20)),
  }),
  component: () => {
    const { greeting, name, late } = Route.useLoaderData();
    return (
      <main>
        <h1>Hello, {name}</h1>
        <p>{greeting}</p>
        <Suspense fallback={<p>wait…</p>}>
          <Await promise={late}>{(text) => <p>{text}</p>}</Await>
        </Suspense>
      </main>
    );
  },
});
