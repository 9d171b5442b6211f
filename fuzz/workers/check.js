// Functions that the Workers share. They read the input, and report a property that does not hold.

// Matches messages of errors that the engine throws. No standard defines such errors, so they
// indicate a bug in built-in code.
const ENGINE_ERROR = /Cannot (read|set) propert|Cannot destructure|is not (a function|iterable|a constructor)/;

/** Returns the value of `make`, or undefined if it throws an error that a standard allows. */
export function attempt(make) {
  try {
    return make();
  } catch (error) {
    rethrowUnexpected(error);
    return undefined;
  }
}

/** Does the same as `attempt` for a promise. */
export async function attemptLater(make) {
  try {
    return await make();
  } catch (error) {
    rethrowUnexpected(error);
    return undefined;
  }
}

function rethrowUnexpected(error) {
  const isStandard = error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError ||
    error instanceof DOMException;
  if (!isStandard || ENGINE_ERROR.test(error.message)) throw error;
}

export function same(a, b, what) {
  if (Object.is(a, b)) return;
  throw new Error(`${what}: ${JSON.stringify(a)?.slice(0, 2000)} is not ${JSON.stringify(b)?.slice(0, 2000)}`);
}

const list = (bytes) => bytes && Array.prototype.join.call(bytes);
export const sameBytes = (a, b, what) => same(list(a), list(b), what);

/** Reads values from the front of the bytes. `rest` holds the remaining bytes. */
export class Reader {
  constructor(bytes) {
    this.rest = bytes;
  }
  number() {
    const [number = 0] = this.rest;
    this.rest = this.rest.subarray(1);
    return number;
  }
  pick(list) {
    return list[this.number() % list.length];
  }
  /** Reads a length of one byte, and then that number of bytes. */
  bytes() {
    const length = this.number();
    const bytes = this.rest.subarray(0, length);
    this.rest = this.rest.subarray(length);
    return bytes;
  }
  text() {
    return new TextDecoder().decode(this.bytes());
  }
}

/** Cuts bytes into at most 64 pieces, of this length if possible. */
export function cut(bytes, length) {
  const step = Math.max(length, 1, Math.ceil(bytes.length / 64));
  const pieces = [];
  for (let at = 0; at < bytes.length; at += step) pieces.push(bytes.slice(at, at + step));
  return pieces;
}

export const streamOf = (pieces) => ReadableStream.from(pieces);

/** Returns a Worker that checks the bytes of each request's body. */
export const checker = (check) => ({
  async fetch(request) {
    try {
      await check(new Reader(new Uint8Array(await request.arrayBuffer())));
      return new Response();
    } catch (error) {
      return new Response(`${error?.stack ?? error}`, { status: 500 });
    }
  },
});
