import * as Sentry from "@sentry/cloudflare";

const handler = {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/broken") throw new Error("on purpose");
    if (pathname === "/captured") return Response.json({ id: Sentry.captureMessage("a message") });
    // The origin lists what Sentry's client has sent.
    if (pathname === "/events") return fetch(`${env.ORIGIN}/sentry/events`);
    return Response.json({ traced: Sentry.getActiveSpan() !== undefined });
  },
};

export default Sentry.withSentry(
  (env) => ({ dsn: `http://key@${new URL(env.ORIGIN).host}/1`, tracesSampleRate: 1 }),
  handler,
);
