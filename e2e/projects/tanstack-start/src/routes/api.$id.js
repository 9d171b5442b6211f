import { createFileRoute } from "@tanstack/react-router";

export const Route = createFileRoute("/api/$id")({
  server: {
    handlers: {
      GET: ({ params }) => Response.json({ id: params.id }),
      POST: async ({ request }) => Response.json({ received: await request.json() }, { status: 201 }),
    },
  },
});
