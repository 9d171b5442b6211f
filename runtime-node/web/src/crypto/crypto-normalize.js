// The supported algorithms, their parameters, and the conversion of a Worker's value to one of
// them: "normalizing an algorithm" (Web Cryptography §18.4).
//: late, after crypto-key.js
(function (internal) {
  "use strict";

  const { ObjectKeys, RegExpPrototypeExec, StringPrototypeToUpperCase, TypeError, TypedArrayPrototypeGetSymbolToStringTag } =
    internal.primordials;
  const { DOMString, enforced, isObject } = internal.webidl;

  internal.later("cryptoAlgorithms", [], () => {
    const { copyOf, isBufferSource, isCryptoKey, notSupported } = internal.cryptoKeys();

    // ---- Types of members: `convert` runs when a member is read, and `finish` after all members
    // have been read.

    const same = (value) => value;
    const buffer = {
      __proto__: null,
      convert(value, what) {
        if (!isBufferSource(value)) throw new TypeError(`${what} is neither an ArrayBuffer nor a view of one`);
        return value;
      },
      finish: copyOf,
    };
    const bigInteger = {
      __proto__: null,
      convert(value, what) {
        if (TypedArrayPrototypeGetSymbolToStringTag(value) !== "Uint8Array") throw new TypeError(`${what} is not a Uint8Array`);
        return value;
      },
      finish: copyOf,
    };
    const integer = (maximum) => ({ __proto__: null, convert: (value, what) => enforced(value, maximum, what), finish: same });
    const octet = integer(2 ** 8 - 1);
    const short = integer(2 ** 16 - 1);
    const long = integer(2 ** 32 - 1);
    const string = { __proto__: null, convert: DOMString, finish: same };
    const hash = {
      __proto__: null,
      convert: identifier,
      finish: (value) => normalize("digest", value).name,
    };
    const publicKey = {
      __proto__: null,
      convert(value, what) {
        if (!isCryptoKey(value)) throw new TypeError(`${what} is not a CryptoKey`);
        return value;
      },
      finish: same,
    };

    // ---- Dictionaries: members in the order in which Web IDL reads them.

    const must = (key, type) => ({ __proto__: null, key, type, required: true });
    const may = (key, type) => ({ __proto__: null, key, type, required: false });

    const NONE = [];
    const RSA_GENERATE = [must("modulusLength", long), must("publicExponent", bigInteger), must("hash", hash)];
    const HASH = [must("hash", hash)];
    const CURVE = [must("namedCurve", string)];
    const PUBLIC = [must("public", publicKey)];
    const AES_LENGTH = [must("length", short)];
    const HMAC = [must("hash", hash), may("length", long)];
    const RSA_PSS = [must("saltLength", long)];
    const RSA_OAEP = [may("label", buffer)];
    const AES_CTR = [must("counter", buffer), must("length", octet)];
    const AES_CBC = [must("iv", buffer)];
    const AES_GCM = [may("additionalData", buffer), must("iv", buffer), may("tagLength", octet)];
    const HKDF = [must("hash", hash), must("info", buffer), must("salt", buffer)];
    const PBKDF2 = [must("hash", hash), must("iterations", long), must("salt", buffer)];

    // ---- Operations: for each, the algorithms that support it and their parameters.

    const aes = (parameters) => ({
      __proto__: null, "AES-CTR": parameters, "AES-CBC": parameters, "AES-GCM": parameters, "AES-KW": parameters,
    });
    const cipher = { __proto__: null, "RSA-OAEP": RSA_OAEP, "AES-CTR": AES_CTR, "AES-CBC": AES_CBC, "AES-GCM": AES_GCM };
    const signature = {
      __proto__: null, "RSASSA-PKCS1-v1_5": NONE, "RSA-PSS": RSA_PSS, ECDSA: HASH, Ed25519: NONE, HMAC: NONE,
    };
    const wrap = { __proto__: null, "AES-KW": NONE };
    const keys = (rsa, curve, length, hmac) => ({
      __proto__: null, "RSASSA-PKCS1-v1_5": rsa, "RSA-PSS": rsa, "RSA-OAEP": rsa, ECDSA: curve, ECDH: curve, Ed25519: NONE,
      X25519: NONE, ...aes(length), HMAC: hmac,
    });
    const OPERATIONS = {
      __proto__: null,
      digest: { __proto__: null, "SHA-1": NONE, "SHA-256": NONE, "SHA-384": NONE, "SHA-512": NONE },
      encrypt: cipher,
      decrypt: cipher,
      sign: signature,
      verify: signature,
      deriveBits: { __proto__: null, ECDH: PUBLIC, X25519: PUBLIC, HKDF, PBKDF2 },
      generateKey: keys(RSA_GENERATE, CURVE, AES_LENGTH, HMAC),
      importKey: { __proto__: null, ...keys(HASH, CURVE, NONE, HMAC), HKDF: NONE, PBKDF2: NONE },
      exportKey: keys(NONE, NONE, NONE, NONE),
      wrapKey: wrap,
      unwrapKey: wrap,
      "get key length": { __proto__: null, ...aes(AES_LENGTH), HMAC, HKDF: NONE, PBKDF2: NONE },
    };

    // Maps the name in capitals to its official spelling.
    const NAMES = { __proto__: null };
    for (const operation in OPERATIONS) {
      const names = ObjectKeys(OPERATIONS[operation]);
      for (let i = 0; i < names.length; i++) NAMES[StringPrototypeToUpperCase(names[i])] = names[i];
    }

    // ---- Normalizing

    // Converts an `AlgorithmIdentifier`.
    function identifier(value) {
      return isObject(value) ? value : DOMString(value);
    }

    // Only ASCII is accepted, because some other letters have ASCII capitals.
    const NAME = /^[\x20-\x7e]{1,32}$/;
    const officialName = (name) =>
      (RegExpPrototypeExec(NAME, name) === null ? undefined : NAMES[StringPrototypeToUpperCase(name)]);

    const supports = (operation, name) => name in OPERATIONS[operation];

    // Returns a null-prototype record of the algorithm's parameters, in which buffers are copies
    // and hashes are names. The Worker's getters run here.
    const normalize = (operation, algorithm) => {
      const source = isObject(algorithm) ? algorithm : { __proto__: null, name: algorithm };
      const given = source.name;
      if (given === undefined) throw new TypeError("The algorithm has no name");
      const text = DOMString(given);
      const name = officialName(text);
      if (name === undefined || !supports(operation, name)) {
        throw notSupported(`The algorithm '${text}' is not supported for '${operation}'; ${alternatives(operation)}`);
      }
      const members = OPERATIONS[operation][name];
      const normalized = { __proto__: null, name };
      if (members.length > 0) {
        // Web IDL reads `name` again as a member of the algorithm's dictionary. The value is
        // unused.
        DOMString(source.name);
      }
      for (let i = 0; i < members.length; i++) {
        const { key, type, required } = members[i];
        const value = source[key];
        if (value !== undefined) normalized[key] = type.convert(value, `${name}: '${key}'`);
        else if (required) throw new TypeError(`${name}: '${key}' is required`);
      }
      for (let i = 0; i < members.length; i++) {
        const { key, type } = members[i];
        if (normalized[key] !== undefined) normalized[key] = type.finish(normalized[key]);
      }
      return normalized;
    };

    const alternatives = (operation) => {
      let list = "use one of ";
      const names = ObjectKeys(OPERATIONS[operation]);
      for (let i = 0; i < names.length; i++) list += i === 0 ? names[i] : `, ${names[i]}`;
      return list;
    };

    return { __proto__: null, identifier, normalize, supports };
  });
})
