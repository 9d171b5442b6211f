import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { buffer } from "node:stream/consumers";
import { createGunzip, createGzip } from "node:zlib";
import busboy from "busboy";
import { Suspense, use } from "react";
import { renderToPipeableStream } from "react-dom/server.node";

function Late({ promise }) {
  return <p>{use(promise)}</p>;
}

/** A page as React writes it for Node.js. */
function page() {
  const late = new Promise((resolve) => setTimeout(resolve, 5, "It came later."));
  const out = new PassThrough();
  const { pipe } = renderToPipeableStream(
    <main>
      <Suspense fallback={<p>Wait…</p>}>
        <Late promise={late} />
      </Suspense>
    </main>,
    { onShellReady: () => pipe(out) },
  );
  return new Response(Readable.toWeb(out), { headers: { "content-type": "text/html" } });
}

/** A form as busboy reads it. */
async function form(request) {
  const fields = {};
  const parts = busboy({ headers: Object.fromEntries(request.headers) });
  parts.on("field", (name, value) => (fields[name] = value));
  parts.on("file", async (name, file, { filename, mimeType }) => {
    fields[name] = `${filename} (${mimeType}): ${await buffer(file)}`;
  });
  await pipeline(Readable.fromWeb(request.body), parts);
  return Response.json(fields);
}

export default {
  async fetch(request) {
    switch (new URL(request.url).pathname) {
      case "/page":
        return page();
      case "/form":
        return form(request);
      default: {
        const through = Readable.fromWeb(request.body).pipe(createGzip()).pipe(createGunzip());
        return new Response(Readable.toWeb(through));
      }
    }
  },
};
