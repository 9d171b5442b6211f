import { createQwikCity } from "@builder.io/qwik-city/middleware/cloudflare-pages";
import qwikCityPlan from "@qwik-city-plan";
import render from "./entry.ssr";

const handle = createQwikCity({ render, qwikCityPlan });

export default { fetch: (request, env, ctx) => handle(request, env, ctx) };
