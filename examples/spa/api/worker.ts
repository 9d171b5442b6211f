const NOTES = new Map([
  ["tenon", "The end of a board, shaped to fit into a mortise."],
  ["mortise", "A hole in a board, cut to receive a tenon."],
]);

export default {
  fetch(request: Request): Response {
    const { pathname } = new URL(request.url);
    if (pathname === "/api/notes") return Response.json([...NOTES.keys()]);
    const note = NOTES.get(pathname.replace("/api/notes/", ""));
    if (note === undefined) return Response.json({ error: "no such note" }, { status: 404 });
    return Response.json({ note });
  },
};
