import { initWasm, Resvg } from "@resvg/resvg-wasm";
import wasm from "@resvg/resvg-wasm/index_bg.wasm";

const ready = initWasm(wasm);

export default {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== "/circle.png") return new Response("There is no such image", { status: 404 });
    await ready;
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><circle cx="5" cy="5" r="4" fill="teal"/></svg>';
    const image = new Resvg(svg, { fitTo: { mode: "width", value: Number(searchParams.get("width") ?? 100) } }).render();
    return new Response(image.asPng(), { headers: { "content-type": "image/png" } });
  },
};
