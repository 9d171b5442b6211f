// Calls a gRPC server: for requests of /greet and /count-down, which it answers as JSON, and for
// gRPC clients, whose calls it forwards unread, so that the status in the trailers arrives.
import { frame, messages } from "./frames.ts";
import { decode, encode } from "./protobuf.ts";

interface Env {
    ORIGIN: string;
}

const SERVICE = "/tenon.examples.v1.Greeter";

export default {
    async fetch(request: Request, env: Env): Promise<Response> {
        const { pathname, searchParams } = new URL(request.url);
        if (request.headers.get("content-type")?.startsWith("application/grpc")) {
            return fetch(env.ORIGIN + pathname, request);
        }
        const [name, seconds] = [searchParams.get("name"), searchParams.get("seconds")];
        const message = { 1: name ?? "world", 2: Number(seconds ?? 0) };
        if (pathname === "/greet") return greet(env, message);
        if (pathname === "/count-down") return countDown(env, message);
        return new Response("not found\n", { status: 404 });
    },
};

/** Makes a unary call. */
async function greet(env: Env, message: Record<number, string | number>): Promise<Response> {
    const response = await call(env, "Greet", message);
    if (!(response instanceof Response)) return failed(response);
    for await (const greeting of messages(response.body)) {
        return Response.json({ text: decode(greeting)[1] });
    }
    return failed({ code: 2, message: "the answer has no message" });
}

/** Makes a call whose messages are streamed, and passes each on as a line when it arrives. */
async function countDown(env: Env, message: Record<number, string | number>): Promise<Response> {
    const response = await call(env, "CountDown", message);
    if (!(response instanceof Response)) return failed(response);
    const { body } = response;
    const lines = async function* () {
        for await (const greeting of messages(body)) {
            yield `${JSON.stringify({ text: decode(greeting)[1] })}\n`;
        }
    };
    const encoded = ReadableStream.from(lines()).pipeThrough(new TextEncoderStream());
    return new Response(encoded, { headers: { "content-type": "application/x-ndjson" } });
}

interface Failure {
    code: number;
    message: string;
}

/**
 * Sends a call. A call that fails before its first message has the status in the head of the
 * response. JavaScript cannot read trailers, so a later failure is seen only as an early end.
 */
async function call(
    { ORIGIN }: Env,
    method: string,
    message: Record<number, string | number>,
): Promise<Response | Failure> {
    const response = await fetch(`${ORIGIN}${SERVICE}/${method}`, {
        method: "POST",
        headers: { "content-type": "application/grpc+proto", te: "trailers" },
        body: frame(encode(message)),
    });
    const code = Number(response.headers.get("grpc-status") ?? (response.ok ? 0 : 2));
    if (code === 0) return response;
    await response.body?.cancel();
    const reason = response.headers.get("grpc-message") ?? `status ${response.status}`;
    return { code, message: decodeURIComponent(reason) };
}

function failed({ code, message }: Failure): Response {
    return Response.json({ code, message }, { status: code === 3 ? 400 : 502 });
}
