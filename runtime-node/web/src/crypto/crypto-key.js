// CryptoKey (Web Cryptography §13), and functions that all algorithms share.
//
// Key material is native. JavaScript holds a handle: an array buffer that no Worker can reach,
// which contains the key's number. When V8 collects the buffer and frees its memory, the key is
// freed too. Never resolve a promise with a handle and never await a handle: both read `then`,
// which a Worker may have defined.
//: late, after clone-kinds.js describe.js
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, ArrayBufferPrototypeGetByteLength, ArrayBufferPrototypeGetDetached, DataViewPrototypeGetBuffer,
    Promise, PromisePrototypeThen, TypeError, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetSymbolToStringTag,
    TypedArrayPrototypeSet, Uint8Array,
  } = internal.primordials;
  const { bufferSource, enumeration, expose, isObject } = internal.webidl;

  internal.later("cryptoKeys", ["CryptoKey"], () => {
    const { ops } = internal;
    const CREATE = { __proto__: null };

    // ---- Errors

    const error = (name, message) => new (internal.exceptions().DOMException)(message, name);
    const dataError = (message) => error("DataError", message);
    const invalidAccess = (message) => error("InvalidAccessError", message);
    const notSupported = (message) => error("NotSupportedError", message);
    const operationError = (message) => error("OperationError", message);

    // ---- Bytes

    const isArrayBuffer = (value) => {
      try {
        ArrayBufferPrototypeGetByteLength(value);
        return true;
      } catch {
        return false;
      }
    };
    const isBufferSource = (value) => ArrayBufferIsView(value) || isArrayBuffer(value);

    // Returns the current bytes of a BufferSource, which are empty if its buffer is detached.
    const bytesOf = (value) => {
      const buffer = !ArrayBufferIsView(value) ? value
        : TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined ? TypedArrayPrototypeGetBuffer(value)
          : DataViewPrototypeGetBuffer(value);
      return ArrayBufferPrototypeGetDetached(buffer) ? new Uint8Array(0) : /** @type {Uint8Array} */ (bufferSource(value));
    };
    const copyOf = (value) => {
      const bytes = bytesOf(value);
      const copy = new Uint8Array(bytes.length);
      TypedArrayPrototypeSet(copy, bytes);
      return copy;
    };

    // ---- Usages: bits, in the order in which the standard lists them

    const USAGES = ["encrypt", "decrypt", "sign", "verify", "deriveKey", "deriveBits", "wrapKey", "unwrapKey"];
    const usage = {
      __proto__: null,
      ENCRYPT: 1, DECRYPT: 2, SIGN: 4, VERIFY: 8, DERIVE_KEY: 16, DERIVE_BITS: 32, WRAP: 64, UNWRAP: 128,
    };

    // Returns the bit of a usage, or 0 for any other name.
    const usageBit = (name) => {
      for (let i = 0; i < USAGES.length; i++) if (USAGES[i] === name) return 1 << i;
      return 0;
    };
    // Converts a `sequence<KeyUsage>`. The Worker's own iterator runs here, as in the standard.
    const toUsages = (value, what) => {
      if (!isObject(value)) throw new TypeError(`${what}: the usages are not a sequence`);
      let bits = 0;
      for (const name of value) bits |= usageBit(enumeration(name, USAGES, what));
      return bits;
    };
    const usageList = (bits) => {
      const list = [];
      for (let i = 0; i < USAGES.length; i++) if ((bits & (1 << i)) !== 0) list[list.length] = USAGES[i];
      return list;
    };
    // Throws if `bits` contains usages that are not allowed.
    const only = (bits, allowed, what) => {
      if ((bits & ~allowed) !== 0) {
        const wrong = usageList(bits & ~allowed);
        const right = usageList(allowed);
        let message = `${what} cannot be used for '${wrong[0]}'`;
        for (let i = 0; i < right.length; i++) message += i === 0 ? `, only for '${right[i]}'` : ` and '${right[i]}'`;
        throw error("SyntaxError", message);
      }
    };

    const noUsagesError = () => error("SyntaxError", "A secret or private key needs at least one usage; pass it in keyUsages");

    // ---- The interface

    let isCryptoKey, typeOf, algorithmOf, usagesOf, extractableOf, handleOf;

    class CryptoKey {
      #type;
      #extractable;
      // A null-prototype record of `name` and whichever of `length`, `hash` (its name),
      // `namedCurve`, `modulusLength` and `publicExponent` the algorithm has.
      #algorithm;
      #usages;
      #handle;
      // The objects that the getters return. A Worker may change them, so they are never read here.
      #shownAlgorithm = null;
      #shownUsages = null;

      static {
        isCryptoKey = (value) => isObject(value) && #handle in value;
        typeOf = (key) => key.#type;
        algorithmOf = (key) => key.#algorithm;
        usagesOf = (key) => key.#usages;
        extractableOf = (key) => key.#extractable;
        handleOf = (key) => key.#handle;
      }

      constructor(token = undefined, type = undefined, algorithm = undefined, extractable = undefined,
        usages = undefined, handle = undefined) {
        if (token !== CREATE) {
          throw new TypeError("Illegal constructor: keys come from crypto.subtle.generateKey, importKey, deriveKey or unwrapKey");
        }
        this.#type = type;
        this.#algorithm = algorithm;
        this.#extractable = extractable;
        this.#usages = usages;
        this.#handle = handle;
      }

      get type() {
        return this.#type;
      }

      get extractable() {
        return this.#extractable;
      }

      get algorithm() {
        return (this.#shownAlgorithm ??= shown(this.#algorithm));
      }

      get usages() {
        return (this.#shownUsages ??= usageList(this.#usages));
      }
    }
    expose(CryptoKey);
    internal.describe("CryptoKey", isCryptoKey, CryptoKey, ["type", "extractable", "algorithm", "usages"]);

    const shown = ({ name, length, hash, namedCurve, modulusLength, publicExponent }) => {
      if (modulusLength !== undefined) {
        return { name, modulusLength, publicExponent: copyOf(publicExponent), hash: { name: hash } };
      }
      if (hash !== undefined) return { name, hash: { name: hash }, length };
      if (namedCurve !== undefined) return { name, namedCurve };
      return length === undefined ? { name } : { name, length };
    };

    const newKey = (type, algorithm, extractable, usages, handle) =>
      new CryptoKey(CREATE, type, algorithm, extractable, usages, handle);

    // Creates another object for the same key, for structured cloning.
    const clone = (key) => newKey(typeOf(key), algorithmOf(key), extractableOf(key), usagesOf(key), handleOf(key));

    internal.cloners[internal.cloners.length++] = (value) => (isCryptoKey(value) ? clone(value) : null);

    const expectType = (key, type, what) => {
      if (typeOf(key) !== type) throw invalidAccess(`${what} takes a ${type} key, and this one is ${typeOf(key)}`);
    };

    // ---- Native results

    // Native code returns a secret as a ticket, a number that `keyTake` exchanges once for a
    // handle, or as a promise of a ticket. None of the Worker's code runs between `keyTake` and
    // `finish`, even if the Worker has replaced parts of Promise.
    const taken = (given, finish) => {
      if (typeof given === "number") return finish(ops.keyTake(given));
      return new Promise((resolve, reject) => {
        PromisePrototypeThen(given, (ticket) => {
          try {
            resolve(finish(ops.keyTake(ticket)));
          } catch (error) {
            reject(error);
          }
        }, reject);
      });
    };

    return {
      __proto__: null, CryptoKey, algorithmOf, bytesOf, copyOf, dataError, error, expectType, extractableOf, handleOf,
      invalidAccess, isBufferSource, isCryptoKey, newKey, noUsagesError, notSupported, only, operationError, taken, toUsages,
      typeOf, usage, usageBit, usageList, usagesOf,
    };
  });
})
