// node:crypto: KeyObject and its classes.
//
// A KeyObject has a handle of native key material, as a CryptoKey does (see crypto-key.js). No
// Worker ever gets a handle, nor the bytes of a key that is not extractable: never pass one to a
// function that a Worker can replace.
//: module
(function (internal) {
  "use strict";

  const {
    BigInt, Error, ObjectDefineProperty, ObjectPreventExtensions, SymbolToStringTag, TypeError, TypedArrayPrototypeGetByteLength,
    Uint8Array,
  } = internal.primordials;
  const { ops } = internal;
  const { bufferSource, isObject } = internal.webidl;

  // The type of a key in Node.js, by its native kind.
  const TYPES = {
    __proto__: null, "RSA": "rsa", "P-256": "ec", "P-384": "ec", "P-521": "ec", "Ed25519": "ed25519", "X25519": "x25519",
  };
  // The names of curves in OpenSSL.
  const CURVES = { __proto__: null, "P-256": "prime256v1", "P-384": "secp384r1", "P-521": "secp521r1" };
  const PUBLIC_PARTS = ["n", "e"];
  const PRIVATE_PARTS = ["d", "p", "q", "dp", "dq", "qi"];

  internal.define("cryptoKeyObjects", () => {
    const { badValue, coded, defineHidden, invalid, needObject, needString } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { DATA, bytesOf } = internal.use("cryptoData");

    // The token without which the constructor of a KeyObject throws.
    const CREATE = { __proto__: null };
    let handleOf, isKeyObject, kindOf, typeOf, isExtractable;

    class KeyObject {
      #handle;
      #type;
      #kind;
      #extractable;

      static {
        isKeyObject = (value) => isObject(value) && #handle in value;
        handleOf = (key) => key.#handle;
        typeOf = (key) => key.#type;
        kindOf = (key) => key.#kind;
        isExtractable = (key) => key.#extractable;
      }

      constructor(type, handle, extractable = undefined, token = undefined) {
        if (token !== CREATE) {
          if (type !== "secret" && type !== "public" && type !== "private") throw badValue("type", type);
          throw invalid("handle", "of type object", handle);
        }
        this.#type = type;
        this.#handle = handle;
        this.#kind = ops.keyKind(handle);
        this.#extractable = extractable;
      }

      get type() {
        return this.#type;
      }

      static from(key) {
        const { extractableOf, handleOf: handleOfCryptoKey, isCryptoKey, typeOf: typeOfCryptoKey } = internal.cryptoKeys();
        if (!isCryptoKey(key)) throw invalid("key", "an instance of CryptoKey", key);
        return make(typeOfCryptoKey(key), handleOfCryptoKey(key), extractableOf(key));
      }

      equals(other) {
        if (!isKeyObject(other)) throw invalid("otherKeyObject", "an instance of KeyObject", other);
        if (this.#type !== typeOf(other) || this.#kind !== kindOf(other)) return false;
        const format = this.#type === "secret" ? "raw" : this.#type === "public" ? "spki" : "pkcs8";
        const one = partOf(this, format), another = partOf(other, format);
        return TypedArrayPrototypeGetByteLength(one) === TypedArrayPrototypeGetByteLength(another) &&
          internal.sameBytes().same(one, another);
      }
    }
    ObjectDefineProperty(KeyObject.prototype, SymbolToStringTag, { __proto__: null, value: "KeyObject", configurable: true });

    const partOf = (key, name) => new Uint8Array(ops.keyPart(handleOf(key), name));
    const textOf = (key, name) => ops.keyText(partOf(key, name));

    // A CryptoKey that is not extractable remains so as a KeyObject.
    const expectExtractable = (key) => {
      if (!isExtractable(key)) throw coded(Error, "ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE", "The key is not extractable");
    };

    class SecretKeyObject extends KeyObject {
      get symmetricKeySize() {
        return ops.keyBits(handleOf(this)) / 8;
      }

      export(options = undefined) {
        if (options !== undefined) needObject(options, "options");
        const format = options?.format;
        expectExtractable(this);
        if (format === "jwk") return { kty: "oct", k: textOf(this, "raw") };
        if (format !== undefined && format !== "buffer") throw badValue("options.format", format);
        return Buffer.from(ops.keyPart(handleOf(this), "raw"));
      }

      toCryptoKey(algorithm, extractable, keyUsages) {
        return toCryptoKey(this, algorithm, extractable, keyUsages, "raw");
      }
    }

    class AsymmetricKeyObject extends KeyObject {
      #details = null;

      get asymmetricKeyType() {
        return TYPES[kindOf(this)];
      }

      get asymmetricKeyDetails() {
        return { ...(this.#details ??= detailsOf(this)) };
      }

      toCryptoKey(algorithm, extractable, keyUsages) {
        return toCryptoKey(this, algorithm, extractable, keyUsages, typeOf(this) === "public" ? "spki" : "pkcs8");
      }
    }
    const detailsOf = (key) => {
      const kind = kindOf(key);
      if (kind !== "RSA") return kind in CURVES ? { namedCurve: CURVES[kind] } : {};
      const exponent = partOf(key, "e");
      let publicExponent = 0n;
      for (let i = 0; i < exponent.length; i++) publicExponent = publicExponent * 256n + BigInt(exponent[i]);
      return { modulusLength: ops.keyBits(handleOf(key)), publicExponent };
    };

    class PublicKeyObject extends AsymmetricKeyObject {
      export(options) {
        return exportKey(this, options);
      }
    }
    class PrivateKeyObject extends AsymmetricKeyObject {
      export(options) {
        return exportKey(this, options);
      }
    }

    // A class passes the handle to the class that it extends, which a Worker must not replace.
    const classes = [KeyObject, SecretKeyObject, AsymmetricKeyObject, PublicKeyObject, PrivateKeyObject];
    for (let i = 0; i < classes.length; i++) ObjectPreventExtensions(classes[i]);

    // Returns the KeyObject of a handle.
    const make = (type, handle, extractable = true) => {
      const Class = type === "secret" ? SecretKeyObject : type === "public" ? PublicKeyObject : PrivateKeyObject;
      return new Class(type, handle, extractable, CREATE);
    };
    const makePublic = (handle) => make("public", ops.keyPublic(handle));

    // ---- Exports

    function exportKey(key, options) {
      needObject(options, "options");
      expectExtractable(key);
      if (options.format !== "jwk") return internal.use("cryptoPem").write(key, options);
      if (options.passphrase !== undefined || options.cipher !== undefined) {
        throw coded(Error, "ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS", "The selected key encoding jwk does not support encryption.");
      }
      return jwkOf(key);
    }
    function jwkOf(key) {
      const kind = kindOf(key);
      const isPrivate = typeOf(key) === "private";
      if (kind === "RSA") {
        const jwk = { kty: "RSA" };
        for (const name of PUBLIC_PARTS) jwk[name] = textOf(key, name);
        if (isPrivate) for (const name of PRIVATE_PARTS) jwk[name] = textOf(key, name);
        return jwk;
      }
      const jwk = kind in CURVES ? { kty: "EC", x: textOf(key, "x"), y: textOf(key, "y"), crv: kind }
        : { crv: kind, x: textOf(key, "raw"), kty: "OKP" };
      if (isPrivate) jwk.d = textOf(key, "d");
      return jwk;
    }

    function toCryptoKey(key, algorithm, extractable, keyUsages, format) {
      const { noUsagesError, toUsages, typeOf: typeOfCryptoKey, usagesOf } = internal.cryptoKeys();
      const { normalize } = internal.cryptoAlgorithms();
      if (extractable) expectExtractable(key);
      const usages = toUsages(keyUsages, "toCryptoKey");
      const normalized = normalize("importKey", algorithm);
      const { importKey } = internal.cryptoSecrets()[normalized.name] ?? internal.cryptoPairs()[normalized.name];
      const cryptoKey = importKey(format, partOf(key, format), normalized, !!extractable, usages);
      if (typeOfCryptoKey(cryptoKey) !== "public" && usagesOf(cryptoKey) === 0) throw noUsagesError();
      return cryptoKey;
    }

    // ---- Keys from JSON Web Keys (RFC 7517)

    const fromJwk = (jwk, wanted) => {
      needObject(jwk, "key.key");
      const { kty, crv } = jwk;
      const member = (name) => {
        const value = needString(jwk[name], `key.${name}`);
        const bytes = ops.keyBytes(value.replace(/=+$/, ""));
        if (bytes === undefined) throw coded(Error, "ERR_CRYPTO_INVALID_JWK", "Invalid JWK data");
        return new Uint8Array(bytes);
      };
      const isPrivate = jwk.d !== undefined;
      if (wanted === "private" && !isPrivate) throw coded(Error, "ERR_CRYPTO_INVALID_JWK", "Invalid JWK: it has no private key");
      let handle;
      if (kty === "RSA") {
        const parts = isPrivate && wanted !== "public" ? PRIVATE_PARTS : [];
        const numbers = [];
        for (let i = 0; i < parts.length; i++) numbers[i] = member(parts[i]);
        handle = ops.rsaImport(member("n"), member("e"), numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]);
      } else if (kty === "EC" || kty === "OKP") {
        if (TYPES[crv] === undefined || crv === "RSA" || (kty === "EC") !== (crv in CURVES)) {
          throw coded(TypeError, "ERR_CRYPTO_INVALID_CURVE", `Invalid curve of a JWK: ${internal.inspect(crv)}`);
        }
        const d = isPrivate && wanted !== "public" ? member("d") : undefined;
        handle = ops.curveImport(crv, member("x"), kty === "EC" ? member("y") : undefined, d);
      } else {
        throw coded(TypeError, "ERR_CRYPTO_INVALID_JWK", "Unsupported JWK asymmetric key type.");
      }
      return make(isPrivate && wanted !== "public" ? "private" : "public", handle);
    };

    // ---- Keys from arguments

    const wrongType = (given, expected) =>
      coded(TypeError, "ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE", `Invalid key object type ${given}, expected ${expected}.`);
    const KEYS = `${DATA}, or an instance of KeyObject or CryptoKey`;

    // Returns a KeyObject for a KeyObject or a CryptoKey, and null for any other value.
    const keyObjectOf = (value) => {
      if (isKeyObject(value)) return value;
      return internal.cryptoKeys().isCryptoKey(value) ? KeyObject.from(value) : null;
    };

    // Calls `read`. Converts an error of native code, which is a DOMException, to an error with a
    // `code`, as in Node.js.
    const converted = (read) => {
      try {
        return read();
      } catch (error) {
        const parts = internal.domExceptionParts(error);
        throw parts === null ? error : coded(Error, "ERR_OSSL_UNSUPPORTED", parts.message);
      }
    };

    // Reads a serialized key: the argument itself, or an object with the key and its format.
    const read = (argument, wanted, name) => {
      if (typeof argument === "string" || bufferSource(argument) !== null) {
        return internal.use("cryptoPem").read(bytesOf(argument, undefined, name), { __proto__: null }, wanted);
      }
      if (!isObject(argument)) throw invalid(name, KEYS, argument);
      const { key, format } = argument;
      if (format === "jwk") return fromJwk(key, wanted);
      return internal.use("cryptoPem").read(bytesOf(key, argument.encoding, `${name}.key`), argument, wanted);
    };

    // Returns a private key for an operation.
    const privateKeyOf = (argument, name = "key") => {
      const key = keyObjectOf(argument) ?? (isObject(argument) ? keyObjectOf(argument.key) : null);
      if (key === null) return converted(() => read(argument, "private", name));
      if (typeOf(key) !== "private") throw wrongType(typeOf(key), "private");
      return key;
    };
    // Returns a key with a public part for an operation: a public key, or a private key, which
    // contains one.
    const publicKeyOf = (argument, name = "key") => {
      const key = keyObjectOf(argument) ?? (isObject(argument) ? keyObjectOf(argument.key) : null);
      const found = key ?? converted(() => read(argument, "any", name));
      if (typeOf(found) === "secret") throw wrongType("secret", "public or private");
      return found;
    };

    // Returns the bytes of a secret, which is a KeyObject, a CryptoKey or data.
    const secretOf = (value, encoding, name) => {
      const key = keyObjectOf(value);
      if (key === null) {
        if (isObject(value) && bufferSource(value) === null) throw invalid(name, KEYS, value);
        return bytesOf(value, encoding, name);
      }
      if (typeOf(key) !== "secret") throw wrongType(typeOf(key), "secret");
      return partOf(key, "raw");
    };

    // ---- Functions

    const createSecretKey = (key, encoding = undefined) => make("secret", ops.secretImport(bytesOf(key, encoding, "key")));
    const createPrivateKey = (key) => {
      if (isKeyObject(key)) throw invalid("key", DATA, key);
      return privateKeyOf(key);
    };
    const createPublicKey = (key) => {
      if (isKeyObject(key) && typeOf(key) !== "private") throw wrongType(typeOf(key), "private");
      const found = publicKeyOf(key);
      return typeOf(found) === "public" ? found : makePublic(handleOf(found));
    };

    defineHidden(KeyObject.prototype, {
      [internal.node.INSPECT]() {
        return `${this.constructor?.name ?? "KeyObject"} { type: '${typeOf(this)}' }`;
      },
    });

    return {
      __proto__: null, CURVES, converted, handleOf, isKeyObject, kindOf, make, makePublic, privateKeyOf, publicKeyOf, secretOf, typeOf,
      exported: { KeyObject, createPrivateKey, createPublicKey, createSecretKey },
    };
  });
})
