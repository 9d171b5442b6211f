// What the Workers here share: how bytes come in, and how it is told that something does not hold.

// What standards throw. An engine's own words are no standard's: they tell of code that has lost its way.
const LOST = /Cannot (read|set) propert|Cannot destructure|is not (a function|iterable|a constructor)/;

/** The value of `make`, or undefined where it throws what a standard throws. */
export function attempt(make) {
  try {
    return make();
  } catch (error) {
    refuse(error);
    return undefined;
  }
}

/** The same of a promise. */
export async function attemptLater(make) {
  try {
    return await make();
  } catch (error) {
    refuse(error);
    return undefined;
  }
}

function refuse(error) {
  const standard = error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError ||
    error instanceof DOMException;
  if (!standard || LOST.test(error.message)) throw error;
}

export function same(a, b, what) {
  if (Object.is(a, b)) return;
  throw new Error(`${what}: ${JSON.stringify(a)?.slice(0, 2000)} is not ${JSON.stringify(b)?.slice(0, 2000)}`);
}

const list = (bytes) => bytes && Array.prototype.join.call(bytes);
export const sameBytes = (a, b, what) => same(list(a), list(b), what);

/** Reads numbers off the front of some bytes; what is left is `rest`. */
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
  /** As many bytes as the next one says. */
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

/** Cuts bytes in pieces of this length, of which there are not too many. */
export function cut(bytes, length) {
  const step = Math.max(length, 1, Math.ceil(bytes.length / 64));
  const pieces = [];
  for (let at = 0; at < bytes.length; at += step) pieces.push(bytes.slice(at, at + step));
  return pieces;
}

export const streamOf = (pieces) => ReadableStream.from(pieces);

/** A Worker that looks at the bytes it is sent. */
export const looker = (look) => ({
  async fetch(request) {
    try {
      await look(new Reader(new Uint8Array(await request.arrayBuffer())));
      return new Response();
    } catch (error) {
      return new Response(`${error?.stack ?? error}`, { status: 500 });
    }
  },
});
