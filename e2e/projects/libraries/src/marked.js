import hljs from "highlight.js";
import { marked } from "marked";

marked.use({
  renderer: { code: ({ text, lang }) => `<pre><code class="hljs">${hljs.highlight(text, { language: lang }).value}</code></pre>` },
});

export default {
  async fetch(request) {
    if (request.method !== "POST") return new Response("POST Markdown here", { status: 404 });
    return new Response(marked.parse(await request.text()), { headers: { "content-type": "text/html" } });
  },
};
