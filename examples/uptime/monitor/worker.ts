interface Env {
  SHOP: { fetch(request: string, init?: RequestInit): Promise<Response> };
}

/** The time after which an answer is too late, in milliseconds. */
const TIMEOUT_MS = 5000;

export default {
  async scheduled(_controller: unknown, env: Env): Promise<void> {
    const took = await check(env);
    console.log("the shop answers", { took });
  },

  /** Checks at once. */
  async fetch(_request: Request, env: Env): Promise<Response> {
    try {
      return Response.json({ up: true, took: await check(env) });
    } catch (error) {
      return Response.json({ up: false, error: String(error) }, { status: 503 });
    }
  },
};

/** Returns the time until the answer, in milliseconds; throws if it is missing or an error. */
async function check(env: Env): Promise<number> {
  const start = performance.now();
  const response = await env.SHOP.fetch("http://shop/", { signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!response.ok) throw new Error(`the shop answers ${response.status}`);
  return performance.now() - start;
}
