import { renderToReadableStream } from "react-dom/server";

import { App, type Dish } from "./app";

export default {
    async fetch(request: Request): Promise<Response> {
        const { pathname } = new URL(request.url);
        if (pathname === "/api/menu") return Response.json(await readMenu());
        if (pathname !== "/") return new Response("not found\n", { status: 404 });
        let failed = false;
        const stream = await renderToReadableStream(<App menu={readMenu()} />, {
            bootstrapModules: ["/client.js"],
            // Rendering ends with its client.
            signal: request.signal,
            onError(error) {
                failed = true;
                console.error(error);
            },
        });
        // Search engines get the complete page.
        if (/bot|crawler|spider/i.test(request.headers.get("user-agent") ?? "")) await stream.allReady;
        return new Response(stream, {
            status: failed ? 500 : 200,
            headers: { "content-type": "text/html; charset=utf-8" },
        });
    },
};

/** Returns the menu after a while, as a database does. */
async function readMenu(): Promise<Dish[]> {
    await new Promise((resolve) => setTimeout(resolve, 100));
    return [
        { name: "Soup", price: 9 },
        { name: "Stew", price: 15 },
    ];
}
