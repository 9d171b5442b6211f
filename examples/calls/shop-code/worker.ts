// Answers requests with the help of the Worker "cart". `tenon types` writes the type `Env`.

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const url = new URL(request.url);
    if (url.pathname === "/price") {
      await env.CART_ADMIN.setPrice(url.searchParams.get("item") ?? "", Number(url.searchParams.get("price")));
      return new Response("saved");
    }
    using cart = await env.CART.open();
    try {
      for (const item of url.searchParams.getAll("item")) await cart.add(item);
    } catch (error) {
      return new Response((error as Error).message, { status: 404 });
    }
    const lines: string[] = [];
    await cart.each((line) => lines.push(line.name));
    return new Response(`${lines.join(", ")}: ${await env.CART.format(await cart.total)}`);
  },
};
