import { json } from "@sveltejs/kit";

export const GET = ({ params, url }) => json({ path: params.path, query: Object.fromEntries(url.searchParams) });

export async function PUT({ request, fetch }) {
  const inner = await fetch("/api/from/within?a=1");
  return json({ ...(await request.json()), inner: await inner.json() });
}

export const DELETE = () => new Response(null, { status: 204 });
