import { notFound } from "./responses.ts";

// For larger projects, `tenon types worker.yaml` writes the interface `Env`.
interface Env {
  GREETING: string;
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname !== "/") return notFound(pathname);
    return Response.json({ greeting: env.GREETING });
  },
};
