import bcrypt from "bcryptjs";

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname !== "/sign-in") return new Response("There is no such page", { status: 404 });
    const { password } = await request.json();
    // The hash of "secret", as libxcrypt computes it.
    const known = "$2b$06$abcdefghijklmnopqrstuuxLa0AkDDSrQ9VwNnETzOsObiucpMYgC";
    const fresh = await bcrypt.hash(password, 6);
    const matches = await bcrypt.compare(password, fresh);
    return Response.json({ matches, rounds: bcrypt.getRounds(fresh), known: await bcrypt.compare(password, known) }, { status: matches ? 200 : 401 });
  },
};
