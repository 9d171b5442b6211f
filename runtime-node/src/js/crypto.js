// crypto (Web Cryptography §10): randomness from the operating system.
(function (internal) {
  "use strict";

  const { TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetSymbolToStringTag, TypeError } = internal.primordials;
  const { expose, needs } = internal.webidl;

  internal.crypto = internal.later(["Crypto", "crypto"], () => {
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
          throw new (internal.exceptions().DOMException)(
            `crypto.getRandomValues: ${length} bytes are more than ${MAX_BYTES}`, "QuotaExceededError");
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
    }
    expose(Crypto);
    return { Crypto, crypto: new Crypto(CREATE) };
  });
})
