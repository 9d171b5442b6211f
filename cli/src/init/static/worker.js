export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/api/time") return Response.json({ time: new Date() });
    // No file has this path, so `env.ASSETS` responds with 404.html.
    return env.ASSETS.fetch(request);
  },
};
