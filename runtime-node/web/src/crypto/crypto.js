// crypto (Web Cryptography §10): randomness from the operating system, and access to
// `crypto.subtle` and DigestStream. Also the comparison of bytes in constant time.
//: late, after crypto-subtle.js streams-workers.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, MathMin, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength,
    TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetSymbolToStringTag, TypeError, Uint8Array,
  } = internal.primordials;
  const { expose, needs } = internal.webidl;

  internal.later("sameBytes", [], () => {
    // The maximum number of bytes per native call, because such a call cannot be terminated.
    const STEP = 2 ** 18;

    // Compares two Uint8Arrays of equal length in a time that depends only on the length.
    const same = (one, other) => {
      const part = (bytes, at, size) =>
        new Uint8Array(TypedArrayPrototypeGetBuffer(bytes), TypedArrayPrototypeGetByteOffset(bytes) + at, size);
      const length = TypedArrayPrototypeGetByteLength(one);
      let equal = true;
      for (let at = 0; at < length; at += STEP) {
        const size = MathMin(STEP, length - at);
        equal = internal.ops.bytesSame(part(one, at, size), part(other, at, size)) && equal;
      }
      return equal;
    };
    return { __proto__: null, same };
  });

  internal.later("crypto", ["Crypto", "crypto"], () => {
    // The standard's limit on the bytes of one call of getRandomValues (§10.1.1).
    const MAX_BYTES = 65_536;
    const CREATE = { __proto__: null };

    class Crypto {
      #brand = true;

      constructor(key = undefined) {
        if (key !== CREATE) throw new TypeError("Illegal constructor");
      }

      getRandomValues(array) {
        this.#brand;
        needs(arguments.length, 1, "crypto.getRandomValues");
        if (!ArrayBufferIsView(array)) throw new TypeError("crypto.getRandomValues: the argument is not a view of an ArrayBuffer");
        switch (TypedArrayPrototypeGetSymbolToStringTag(array)) {
          case "Int8Array": case "Uint8Array": case "Uint8ClampedArray": case "Int16Array": case "Uint16Array":
          case "Int32Array": case "Uint32Array": case "BigInt64Array": case "BigUint64Array":
            break;
          default:
            throw new (internal.exceptions().DOMException)(
              "crypto.getRandomValues: the argument is not an integer typed array", "TypeMismatchError");
        }
        const length = TypedArrayPrototypeGetByteLength(array);
        if (length > MAX_BYTES) {
          throw new (internal.exceptions().QuotaExceededError)(
            `crypto.getRandomValues: the view has ${length} bytes, more than ${MAX_BYTES}`,
            { __proto__: null, quota: MAX_BYTES, requested: length },
          );
        }
        internal.ops.randomFill(array);
        return array;
      }

      randomUUID() {
        this.#brand;
        return internal.ops.randomUuid();
      }

      get subtle() {
        this.#brand;
        return internal.subtleCrypto().subtle;
      }

      // A non-standard attribute of Cloudflare Workers.
      get DigestStream() {
        this.#brand;
        return internal.digestStreams().DigestStream;
      }
    }
    expose(Crypto);
    return { Crypto, crypto: new Crypto(CREATE) };
  });
})
