// Answers the paths below /api; routers serve the files in dist for all other paths.
export default {
    async fetch(request: Request): Promise<Response> {
        const { pathname } = new URL(request.url);
        if (pathname === "/api/time") return Response.json({ time: new Date().toISOString() });
        return new Response("not found", { status: 404 });
    },
};
