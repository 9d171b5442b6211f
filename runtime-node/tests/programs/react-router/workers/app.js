import { RouterContextProvider, createRequestHandler } from "react-router";

import { cloudflare } from "../app/context.js";

const handler = createRequestHandler(() => import("virtual:react-router/server-build"), import.meta.env.MODE);

export default {
  async fetch(request, env, ctx) {
    if (request.method === "GET") {
      const asset = await env.ASSETS.fetch(request.clone());
      if (asset.status !== 404) return asset;
    }
    const context = new RouterContextProvider();
    context.set(cloudflare, { env, ctx });
    return handler(request, context);
  },
};
