// JSON Web Keys (RFC 7517) as Web Cryptography reads and writes them.
//: late, after crypto-key.js encoding.js
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, JSONStringify, ObjectSetPrototypeOf, ReflectGetOwnPropertyDescriptor, TypeError, Uint8Array,
  } = internal.primordials;
  const { DOMString, isObject } = internal.webidl;

  internal.later("cryptoJwk", [], () => {
    const { dataError, usageBit, usageList } = internal.cryptoKeys();

    // The members of a `JsonWebKey`, in the order in which Web IDL reads them.
    const MEMBERS = [
      "alg", "crv", "d", "dp", "dq", "e", "ext", "k", "key_ops", "kty", "n", "oth", "p", "q", "qi", "use", "x", "y",
    ];

    // Converts a Worker's value to a `JsonWebKey`. The value's getters run here, as in the
    // standard.
    const toJwk = (value) => {
      const jwk = { __proto__: null };
      if (value === undefined || value === null) return jwk;
      if (!isObject(value)) throw new TypeError("The key is neither an ArrayBuffer, nor a view of one, nor a JsonWebKey");
      for (let i = 0; i < MEMBERS.length; i++) {
        const key = MEMBERS[i];
        const member = value[key];
        if (member === undefined) continue;
        jwk[key] = key === "ext" ? !!member
          : key === "key_ops" ? toStrings(member)
            : key === "oth" ? toPrimes(member) : DOMString(member);
      }
      return jwk;
    };
    const toStrings = (value) => {
      if (!isObject(value)) throw new TypeError("JsonWebKey: 'key_ops' is not a sequence");
      const list = [];
      for (const item of value) list[list.length] = DOMString(item);
      return list;
    };
    // Checks the other primes of an RSA key. Such a key is not supported, so only their presence
    // counts.
    const toPrimes = (value) => {
      if (!isObject(value)) throw new TypeError("JsonWebKey: 'oth' is not a sequence");
      for (const item of value) if (!isObject(item)) throw new TypeError("JsonWebKey: 'oth' has an item that is not an object");
      return true;
    };

    // ---- JSON of wrapped keys. The standard processes this JSON in a new global object, so a
    // Worker's changes to the prototypes of objects and arrays must have no effect.

    // The maximum length of a key's JSON, in bytes. Any supported key has a shorter one.
    const MAX_JSON = 2 ** 21;

    const parseJwk = (bytes) => {
      if (bytes.length > MAX_JSON) throw dataError("The unwrapped data is too long to be a JSON Web Key");
      let parsed;
      try {
        parsed = internal.parseJSON(internal.decodeUtf8(bytes));
      } catch {
        throw dataError("The unwrapped data is not JSON");
      }
      if (!isObject(parsed)) throw dataError("The unwrapped data is not a JSON Web Key");
      const jwk = { __proto__: null };
      for (let i = 0; i < MEMBERS.length; i++) {
        const key = MEMBERS[i];
        const own = ReflectGetOwnPropertyDescriptor(parsed, key);
        if (own === undefined) continue;
        jwk[key] = key === "ext" ? !!own.value
          : key === "key_ops" ? memberTexts(own.value)
            : key === "oth" ? true : memberText(own.value, key);
      }
      if (jwk.kty === undefined) throw dataError("The unwrapped data is not a JSON Web Key: it has no 'kty'");
      return jwk;
    };
    const memberText = (value, name) => {
      if (isObject(value)) throw dataError(`'${name}' of the JSON Web Key is not text`);
      return DOMString(value);
    };
    const memberTexts = (value) => {
      if (!ArrayIsArray(value)) throw dataError("'key_ops' of the JSON Web Key is not a list");
      const list = [];
      for (let i = 0; i < value.length; i++) list[i] = memberText(value[i], "key_ops");
      return list;
    };

    // `jwk` is the ordinary object that `exportKey` would return to a Worker. Without prototypes,
    // JSON.stringify finds no `toJSON` that the Worker has defined.
    const writeJwk = (jwk) => {
      ObjectSetPrototypeOf(jwk, null);
      ObjectSetPrototypeOf(jwk.key_ops, null);
      return internal.encodeUtf8(JSONStringify(jwk));
    };

    // ---- Members

    // Returns the bytes of a required member.
    const bytesOf = (jwk, name) => {
      const text = jwk[name];
      if (text === undefined) throw dataError(`The JSON Web Key has no '${name}'`);
      const buffer = internal.ops.keyBytes(text);
      if (buffer === undefined) throw dataError(`'${name}' of the JSON Web Key is not base64url without padding`);
      return new Uint8Array(buffer);
    };
    // Returns the bytes of a number, which has no leading zeros (RFC 7518 §2).
    const numberOf = (jwk, name) => {
      const bytes = bytesOf(jwk, name);
      if (bytes.length === 0 || (bytes[0] === 0 && bytes.length > 1)) {
        throw dataError(`'${name}' of the JSON Web Key is empty or has leading zero bytes`);
      }
      return bytes;
    };
    const toText = (buffer) => internal.ops.keyText(new Uint8Array(buffer));

    // ---- Checks

    // The maximum number of entries of `key_ops`, which are compared in pairs. The standard defines
    // eight operations.
    const MAX_OPERATIONS = 64;

    const expectKind = (jwk, kty) => {
      if (jwk.kty !== kty) throw dataError(`'kty' of the JSON Web Key is '${jwk.kty}', but must be '${kty}'`);
    };
    // Checks the purpose that the key declares against the requested one.
    const expectPurpose = (jwk, use, extractable, usages) => {
      if (usages !== 0 && jwk.use !== undefined && jwk.use !== use) {
        throw dataError(`'use' of the JSON Web Key is '${jwk.use}', but must be '${use}'`);
      }
      const operations = jwk.key_ops;
      if (operations !== undefined) {
        if (operations.length > MAX_OPERATIONS) throw dataError("'key_ops' of the JSON Web Key is too long");
        let bits = 0;
        for (let i = 0; i < operations.length; i++) {
          for (let j = 0; j < i; j++) {
            if (operations[i] === operations[j]) throw dataError(`'key_ops' of the JSON Web Key has '${operations[i]}' twice`);
          }
          bits |= usageBit(operations[i]);
        }
        const missing = usageList(usages & ~bits);
        if (missing.length > 0) throw dataError(`'key_ops' of the JSON Web Key has no '${missing[0]}'`);
      }
      if (jwk.ext === false && extractable) throw dataError("'ext' of the JSON Web Key does not allow it to be extractable");
    };
    const expectAlgorithm = (jwk, alg) => {
      if (jwk.alg !== undefined && jwk.alg !== alg) {
        throw dataError(`'alg' of the JSON Web Key is '${jwk.alg}', but must be '${alg}'`);
      }
    };

    return {
      __proto__: null, bytesOf, expectAlgorithm, expectKind, expectPurpose, numberOf, parseJwk, toJwk, toText, writeJwk,
    };
  });
})
