export function notFound(path: string): Response {
  return Response.json({ error: `there is nothing at ${path}` }, { status: 404 });
}
