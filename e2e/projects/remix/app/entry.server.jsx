import { RemixServer } from "@remix-run/react";
import { renderToReadableStream } from "react-dom/server";

export default async function handleRequest(request, status, headers, context) {
  headers.set("content-type", "text/html");
  return new Response(await renderToReadableStream(<RemixServer context={context} url={request.url} />), { status, headers });
}
