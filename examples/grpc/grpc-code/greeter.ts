// Answers the gRPC-Web calls for the service in greeter.proto.
import { Code, frame, messages, Status, trailers } from "./frames.ts";
import { decode, encode } from "./protobuf.ts";

interface GreetRequest {
    name: string;
    seconds: number;
}

type Method = (request: GreetRequest) => AsyncGenerator<string>;

/** The methods, each of which yields the messages of its answer. */
const METHODS: Record<string, Method> = {
    "/tenon.examples.v1.Greeter/Greet": async function* ({ name }) {
        yield `Hello, ${name}!`;
    },
    "/tenon.examples.v1.Greeter/CountDown": async function* ({ name, seconds }) {
        for (let left = Math.min(seconds, 10); left > 0; left--) {
            yield `${left} …`;
            await new Promise((resolve) => setTimeout(resolve, 1000));
        }
        yield `Hello, ${name}!`;
    },
};

const CONTENT_TYPE = "application/grpc-web+proto";

export default {
    async fetch(request: Request): Promise<Response> {
        const method = METHODS[new URL(request.url).pathname];
        const type = request.headers.get("content-type") ?? "";
        if (request.method !== "POST" || !type.startsWith("application/grpc-web")) {
            return new Response("this is a gRPC-Web service\n", { status: 415 });
        }
        const body = ReadableStream.from(answer(request, method));
        return new Response(body, { headers: { "content-type": CONTENT_TYPE } });
    },
};

/** Returns the frames of an answer, of which the last one has the status of the call. */
async function* answer(request: Request, method?: Method) {
    try {
        if (!method) throw new Status(Code.Unimplemented, "there is no such method");
        for await (const text of method(await read(request))) yield frame(encode({ 1: text }));
        yield trailers(new Status(Code.Ok, ""));
    } catch (error) {
        if (!(error instanceof Status)) console.error(error);
        const unknown = new Status(Code.Unknown, "the call failed");
        yield trailers(error instanceof Status ? error : unknown);
    }
}

async function read(request: Request): Promise<GreetRequest> {
    const { value: message } = await messages(request.body).next();
    if (!message) throw new Status(Code.InvalidArgument, "the call has no message");
    const { 1: name = "", 2: seconds = 0 } = decode(message);
    if (typeof name !== "string" || name === "") {
        throw new Status(Code.InvalidArgument, "name: is missing");
    }
    return { name, seconds: Number(seconds) };
}
