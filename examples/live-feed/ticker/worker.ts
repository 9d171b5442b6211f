interface Env {
  INTERVAL_MS: string;
}

/** The time after which a client that has lost its connection connects again, in milliseconds. */
const RETRY_MS = 2000;

export default {
  fetch(request: Request, env: Env): Response {
    if (new URL(request.url).pathname !== "/events") {
      return new Response("GET /events is a stream of events\n", { status: 404 });
    }
    const last = Number(request.headers.get("last-event-id") ?? -1);
    if (!Number.isSafeInteger(last)) {
      return new Response("Last-Event-ID: must be an id of an earlier event\n", { status: 400 });
    }
    return new Response(ReadableStream.from(events(last + 1, Number(env.INTERVAL_MS))), {
      headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
    });
  },
};

/** The stream asks for an event when the client has room for it, and ends when the client leaves. */
async function* events(first: number, interval: number): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  yield encoder.encode(`retry: ${RETRY_MS}\n\n`);
  for (let id = first; ; id++) {
    const data = JSON.stringify({ tick: id, at: new Date().toISOString() });
    yield encoder.encode(`id: ${id}\ndata: ${data}\n\n`);
    await new Promise((resolve) => setTimeout(resolve, interval));
  }
}
