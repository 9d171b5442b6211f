// Performs the work of a login and of a documentation page within the default limits.
import bcrypt from "bcryptjs";
import hljs from "highlight.js";

const HASH = "$2b$10$abcdefghijklmnopqrstuu";
const CODE = "const answer = async (request) => new Response(`<p>${request.url}</p>`);\n";

export default {
  async fetch(request) {
    switch (new URL(request.url).pathname) {
      case "/password": {
        const hash = await bcrypt.hash("correct horse battery staple", HASH);
        return Response.json({ rounds: bcrypt.getRounds(hash), matches: bcrypt.compareSync("correct horse", hash) });
      }
      case "/highlight": {
        const { language, value } = hljs.highlight(CODE.repeat(100), { language: "javascript" });
        return Response.json({ language, keywords: value.split("hljs-keyword").length - 1 });
      }
    }
    return new Response(null, { status: 404 });
  },
};
