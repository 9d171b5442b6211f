// The Worker that a framework's Worker has as its binding `ASSETS`. Its modules are the files that
// the build has made for browsers. It finds the file for a path as Cloudflare does by default, but
// does not redirect.
import files from "./files.json";

const TYPES = {
  css: "text/css", html: "text/html", ico: "image/x-icon", js: "text/javascript", json: "application/json",
  map: "application/json", svg: "image/svg+xml", txt: "text/plain",
};

export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const path = decodeURIComponent(pathname.slice(1));
    const file = [path, `${path}.html`, `${path}index.html`].find((file) => files.includes(file));
    if (file === undefined) return new Response("Not Found", { status: 404 });
    const { default: bytes } = await import(`./files/${file}`, { with: { type: "bytes" } });
    const type = TYPES[file.slice(file.lastIndexOf(".") + 1)] ?? "application/octet-stream";
    return new Response(bytes, { headers: { "content-type": type } });
  },
};
