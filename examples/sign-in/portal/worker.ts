import { seal, unseal } from "./cookie.js";
import { challengeOf, random } from "./pkce.js";

interface Env {
  CLIENT_ID: string;
  CLIENT_SECRET: string;
  SESSION_KEY: string;
  AUTHORIZE_URL: string;
  TOKEN_URL: string;
  USER_URL: string;
}

/** The state that the browser keeps between the redirect to the provider and the redirect back. */
interface Attempt {
  state: string;
  verifier: string;
}

interface Session {
  login: string;
}

/** Lifetimes of cookies, in seconds. */
const ATTEMPT_SECONDS = 600;
const SESSION_SECONDS = 8 * 3600;

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const url = new URL(request.url);
    switch (url.pathname) {
      case "/": {
        const session = await unseal<Session>(request, "session", env.SESSION_KEY);
        return new Response(session ? `Hello, ${session.login}\n` : "Sign in at /sign-in\n");
      }
      case "/sign-in":
        return signIn(url, env);
      case "/callback":
        return callback(request, url, env);
      case "/sign-out":
        return redirect("/", await seal("session", {}, 0, env.SESSION_KEY));
      default:
        return new Response("Not found\n", { status: 404 });
    }
  },
};

async function signIn(url: URL, env: Env): Promise<Response> {
  const attempt: Attempt = { state: random(), verifier: random() };
  const location = new URL(env.AUTHORIZE_URL);
  location.search = new URLSearchParams({
    response_type: "code",
    client_id: env.CLIENT_ID,
    redirect_uri: `${url.origin}/callback`,
    state: attempt.state,
    code_challenge: await challengeOf(attempt.verifier),
    code_challenge_method: "S256",
  }).toString();
  return redirect(location.href, await seal("attempt", attempt, ATTEMPT_SECONDS, env.SESSION_KEY));
}

async function callback(request: Request, url: URL, env: Env): Promise<Response> {
  const attempt = await unseal<Attempt>(request, "attempt", env.SESSION_KEY);
  // Without this comparison, another site could sign a user in to an account of its choice.
  if (attempt === undefined || attempt.state !== url.searchParams.get("state")) {
    return new Response("The sign-in has expired; begin again at /sign-in\n", { status: 400 });
  }
  const answer = await fetch(env.TOKEN_URL, {
    method: "POST",
    headers: { accept: "application/json" },
    body: new URLSearchParams({
      grant_type: "authorization_code",
      code: url.searchParams.get("code") ?? "",
      redirect_uri: `${url.origin}/callback`,
      client_id: env.CLIENT_ID,
      client_secret: env.CLIENT_SECRET,
      code_verifier: attempt.verifier,
    }),
  });
  const { access_token: token } = answer.ok ? await answer.json() : {};
  if (typeof token !== "string") {
    return new Response("The provider has refused the sign-in\n", { status: 403 });
  }
  const user = await fetch(env.USER_URL, {
    headers: { authorization: `Bearer ${token}`, "user-agent": "tenon-example" },
  });
  if (!user.ok) return new Response("The provider does not answer\n", { status: 502 });
  const { login } = (await user.json()) as Session;
  const session: Session = { login };
  return redirect("/", await seal("session", session, SESSION_SECONDS, env.SESSION_KEY));
}

function redirect(location: string, cookie: string): Response {
  return new Response(null, { status: 302, headers: { location, "set-cookie": cookie } });
}
