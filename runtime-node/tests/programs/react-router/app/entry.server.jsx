import { isbot } from "isbot";
import { renderToReadableStream } from "react-dom/server";
import { ServerRouter } from "react-router";

export const streamTimeout = 5_000;

export default async function handleRequest(request, status, headers, context) {
  const body = await renderToReadableStream(<ServerRouter context={context} url={request.url} />, {
    signal: request.signal,
    onError(error) {
      if (!request.signal.aborted) console.error(error);
    },
  });
  if (isbot(request.headers.get("user-agent"))) await body.allReady;
  headers.set("content-type", "text/html");
  return new Response(body, { headers, status });
}
