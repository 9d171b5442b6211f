// The frames of gRPC and gRPC-Web: a byte of flags, the length in four bytes, and the message.

/** The codes of a call's status that this example uses. */
export const Code = { Ok: 0, Unknown: 2, InvalidArgument: 3, Unimplemented: 12 };

/** The flag of the last gRPC-Web frame, which contains the trailers. */
const TRAILERS = 128;

/** The maximum size of a message, in bytes. */
const MAX_MESSAGE = 64 * 1024;

/** The status with which a call ends. It is thrown if the call has failed. */
export class Status extends Error {
    constructor(readonly code: number, message: string) {
        super(message);
    }

    /** The status as text. The message is percent-encoded: headers cannot have all characters. */
    get trailers(): string {
        return `grpc-status: ${this.code}\r\ngrpc-message: ${encodeURIComponent(this.message)}\r\n`;
    }
}

export function frame(message: Uint8Array, flags = 0): Uint8Array<ArrayBuffer> {
    const framed = new Uint8Array(5 + message.length);
    new DataView(framed.buffer).setUint32(1, message.length);
    framed[0] = flags;
    framed.set(message, 5);
    return framed;
}

/** Returns the last frame of a gRPC-Web response. */
export function trailers(status: Status): Uint8Array<ArrayBuffer> {
    return frame(new TextEncoder().encode(status.trailers), TRAILERS);
}

/** Yields the messages in a body as they arrive. */
export async function* messages(
    body: ReadableStream<Uint8Array> | null,
): AsyncGenerator<Uint8Array> {
    let left = new Uint8Array();
    for await (const piece of body ?? []) {
        const joined = new Uint8Array(left.length + piece.length);
        joined.set(left);
        joined.set(piece, left.length);
        left = joined;
        while (left.length >= 5) {
            const size = new DataView(left.buffer, left.byteOffset).getUint32(1);
            if (left[0] !== 0) throw new Status(Code.Unimplemented, "the message is compressed");
            if (size > MAX_MESSAGE) {
                throw new Status(Code.InvalidArgument, "the message is too large");
            }
            if (left.length < 5 + size) break;
            yield left.subarray(5, 5 + size);
            left = left.subarray(5 + size);
        }
    }
    if (left.length > 0) throw new Status(Code.InvalidArgument, "the message is incomplete");
}
