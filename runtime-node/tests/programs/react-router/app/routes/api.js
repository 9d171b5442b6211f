export const loader = ({ params, request }) =>
  Response.json({ path: params["*"], query: Object.fromEntries(new URL(request.url).searchParams) });

export async function action({ request }) {
  if (request.method === "DELETE") return new Response(null, { status: 204 });
  return Response.json({ method: request.method, ...(await request.json()) });
}
