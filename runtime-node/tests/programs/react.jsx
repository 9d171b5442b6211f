import { Suspense, use } from "react";
import { renderToReadableStream, renderToString } from "react-dom/server.edge";

function Page({ name, children }) {
  return (
    <html>
      <head>
        <title>{`For ${name}`}</title>
      </head>
      <body>
        <h1>Hello, {name}!</h1>
        {children}
      </body>
    </html>
  );
}

function Late({ promise }) {
  return <p>{use(promise)}</p>;
}

export default {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    const name = searchParams.get("name") ?? "world";
    if (pathname === "/string") {
      return new Response(renderToString(<Page name={name} />), { headers: { "content-type": "text/html" } });
    }
    const late = new Promise((resolve) => setTimeout(resolve, 5, "It came later."));
    const stream = await renderToReadableStream(
      <Page name={name}>
        <Suspense fallback={<p>Wait…</p>}>
          <Late promise={late} />
        </Suspense>
      </Page>,
      { signal: request.signal },
    );
    return new Response(stream, { headers: { "content-type": "text/html" } });
  },
};
