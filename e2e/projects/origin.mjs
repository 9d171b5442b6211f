// Stands in for the services that the Workers of the suite call: it serves parts of the HTTP
// interfaces of Supabase, Stripe, OpenAI, Clerk and Sentry, and a page. `node origin.mjs ADDRESS PORT`
// serves until the process ends.

import { createServer } from "node:http";

const PAGE = "<!doctype html><h1>Cities</h1><table><tr><td>Arica</td><td>222</td></tr><tr><td>Iquique</td><td>191</td></tr></table>";
const PIECES = ["Hel", "lo", " there"];
const COMPLETION = { id: "c", object: "chat.completion", created: 1, model: "small" };

const json = (body, status = 200, headers = {}) => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(body),
});

// The answers, by method and path. A function gets the body and the headers of the request.
const answers = {
  "GET /table.html": () => ({ status: 200, headers: { "content-type": "text/html" }, body: PAGE }),

  "GET /rest/v1/cities": (_, headers) =>
    headers.apikey === "public-key"
      ? json([{ name: "Arica" }, { name: "Iquique" }], 206, { "content-range": "0-1/5" })
      : json({ message: "no key" }, 401),
  "GET /rest/v1/missing": () => json({ code: "42P01", message: "relation does not exist" }, 404),
  "POST /auth/v1/token": (body) => {
    const { email, password } = JSON.parse(body);
    if (password !== "secret") return json({ message: "no such user" }, 400);
    const session = { access_token: "a.b.c", refresh_token: "r", token_type: "bearer", expires_in: 3600 };
    return json({ ...session, user: { id: "1", aud: "authenticated", email, app_metadata: {}, user_metadata: {} } });
  },

  "GET /v1/customers": () =>
    json({ object: "list", has_more: false, data: ["ada@example.com", "bob@example.com"].map((email) => ({ object: "customer", email })) }),
  "GET /v1/customers/missing": () => json({ error: { type: "invalid_request_error", message: "No such customer" } }, 404),

  "POST /v1/chat/completions": (body) => {
    if (!JSON.parse(body).stream) {
      const message = { role: "assistant", content: PIECES.join("") };
      const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
      return json({ ...COMPLETION, choices: [{ index: 0, message, finish_reason: "stop" }], usage });
    }
    const chunk = (delta, finish_reason) => ({
      ...COMPLETION,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, finish_reason }],
    });
    const chunks = [...PIECES.map((content) => chunk({ role: "assistant", content }, null)), chunk({}, "stop")];
    const events = [...chunks.map((each) => JSON.stringify(each)), "[DONE]"].map((data) => `data: ${data}\n\n`);
    return { status: 200, headers: { "content-type": "text/event-stream" }, body: events.join("") };
  },
  "GET /v1/models/missing": () => json({ error: { message: "no such model", type: "invalid_request_error" } }, 404),

  "GET /v1/users/user_1": (_, headers) =>
    headers.authorization === "Bearer sk_test_key" ? json({ object: "user", id: "user_1", first_name: "Ada" }) : json({ errors: [] }, 401),
};

// The types of the items that Sentry's clients have sent.
const events = [];

const server = createServer(async (request, response) => {
  const body = (await request.setEncoding("utf8").toArray()).join("");
  const path = new URL(request.url, "http://origin").pathname;
  let answer = answers[`${request.method} ${path}`]?.(body, request.headers);
  if (path === "/api/1/envelope/") {
    events.push(...[...body.matchAll(/^\{"type":"(\w+)"/gm)].map(([, type]) => type));
    answer = json({ id: "1" });
  } else if (path === "/sentry/events") {
    answer = json(events);
  }
  const { status, headers, body: text } = answer ?? json({ error: "there is no such path" }, 404);
  response.writeHead(status, headers).end(text);
});
const [address, port] = process.argv.slice(2);
server.listen(Number(port), address);
