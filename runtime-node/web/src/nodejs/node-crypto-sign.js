// node:crypto: signatures with RSA (RFC 8017), ECDSA and Ed25519 (RFC 8032).
//: module
(function (internal) {
  "use strict";

  const { Error, MathCeil, MathMax, TypeError, TypedArrayPrototypeGetByteLength, Uint8Array } = internal.primordials;
  const { ops } = internal;
  const { isObject } = internal.webidl;

  // Values of `crypto.constants`.
  const PKCS1 = 1, PSS = 6, SALT_OF_DIGEST = -1, LONGEST_SALT = -2;
  // The lengths of digests and of the numbers in an ECDSA signature, in bytes.
  const DIGESTS = { __proto__: null, "SHA-1": 20, "SHA-256": 32, "SHA-384": 48, "SHA-512": 64 };
  const NUMBERS = { __proto__: null, "P-256": 32, "P-384": 48, "P-521": 66 };
  // The maximum length of a message that is signed or verified with Ed25519, in bytes: this thread
  // hashes the message in one native call.
  const LONGEST = 2 ** 20;

  internal.define("cryptoSignatures", () => {
    const { badValue, coded, defineHidden, needFunction, needInteger, outOfRange } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { Writable } = internal.use("writable");
    const { bytesOf, callLater, encoded, keeper, lazily, settle } = internal.use("cryptoData");
    const hashes = internal.use("cryptoHashes");
    const { handleOf, kindOf, privateKeyOf, publicKeyOf } = internal.use("cryptoKeyObjects");

    const { forget, keep } = keeper((number) => ops.hashClose(number));

    // ---- Schemes

    const invalidDigest = (name) => coded(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${name}`);
    const notSupported = (kind) => coded(Error, "ERR_OSSL_EVP_OPERATION_NOT_SUPPORTED_FOR_THIS_KEYTYPE",
      `error:03000096:digital envelope routines::operation not supported for this keytype: ${kind}`);
    const failed = () => coded(Error, "ERR_CRYPTO_OPERATION_FAILED", "The key is too short for this digest and padding");

    // Returns the Web Crypto name of a signature's hash.
    const signedHash = (name) => {
      const hash = hashes.webName(name);
      if (hash === undefined) throw invalidDigest(name);
      return hash;
    };

    // Returns the scheme for a key and the options of a call.
    function schemeOf(key, options, hash) {
      const kind = kindOf(key);
      const { dsaEncoding = "der", padding = PKCS1, saltLength } = isObject(options) ? options : {};
      if (dsaEncoding !== "der" && dsaEncoding !== "ieee-p1363") throw badValue("options.dsaEncoding", dsaEncoding);
      if (saltLength !== undefined) needInteger(saltLength, "options.saltLength", LONGEST_SALT, 2 ** 31 - 1);
      if (kind === "Ed25519") return { __proto__: null, name: "ed25519", hash: undefined };
      if (kind === "X25519") throw notSupported(kind);
      if (kind !== "RSA") return { __proto__: null, name: "ecdsa", hash, isDer: dsaEncoding === "der", length: NUMBERS[kind] };
      if (padding === PKCS1) return { __proto__: null, name: "pkcs1", hash };
      if (padding !== PSS) throw badValue("options.padding", padding);
      return { __proto__: null, name: "pss", hash, saltLength: saltLength ?? LONGEST_SALT };
    }

    const signed = (scheme, signature) => {
      if (signature === undefined) throw failed();
      return Buffer.from(scheme.isDer ? ops.ecdsaToDer(new Uint8Array(signature)) : signature);
    };
    const signDigest = (key, scheme, digest) =>
      signed(scheme, ops.digestSign(scheme.name, handleOf(key), digest, scheme.hash, scheme.saltLength));

    function verifyDigest(key, scheme, digest, signature) {
      let numbers = signature;
      if (scheme.isDer) {
        const buffer = ops.ecdsaFromDer(signature, scheme.length);
        if (buffer === undefined) return false;
        numbers = new Uint8Array(buffer);
      }
      return ops.digestVerify(scheme.name, handleOf(key), digest, numbers, scheme.hash, scheme.saltLength);
    }

    // ---- Classes

    let take;
    class Signing extends lazily(Writable) {
      #number;
      #hash;

      static {
        // Returns the name of the hash, and the digest of the data.
        take = (signing) => {
          const number = signing.#number;
          if (number === null) throw coded(Error, "ERR_CRYPTO_INVALID_STATE", "The data has already been signed or verified");
          signing.#number = null;
          forget(signing);
          return { __proto__: null, hash: signing.#hash, digest: hashes.finish(number) };
        };
      }

      constructor(algorithm, options = undefined) {
        const hash = signedHash(algorithm);
        super(options);
        this.#hash = hash;
        this.#number = keep(this, hashes.open(hash, undefined, "digest"));
      }

      update(data, encoding = undefined) {
        if (this.#number === null) throw coded(Error, "ERR_CRYPTO_INVALID_STATE", "The data has already been signed or verified");
        hashes.feed(this.#number, bytesOf(data, encoding, "data"));
        return this;
      }
    }
    defineHidden(Signing.prototype, {
      _write(chunk, encoding, done) {
        this.update(chunk, encoding);
        done();
      },
    });

    class Sign extends Signing {
      sign(options, encoding = undefined) {
        if (!options) throw coded(Error, "ERR_CRYPTO_SIGN_KEY_REQUIRED", "No key provided to sign");
        const key = privateKeyOf(options, "options");
        if (kindOf(key) === "Ed25519") throw notSupported("Ed25519");
        const { hash, digest } = take(this);
        return encoded(signDigest(key, schemeOf(key, options, hash), digest), encoding);
      }
    }
    class Verify extends Signing {
      verify(options, signature, encoding = undefined) {
        const key = publicKeyOf(options, "options");
        if (kindOf(key) === "Ed25519") throw notSupported("Ed25519");
        const bytes = bytesOf(signature, encoding, "signature");
        const { hash, digest } = take(this);
        return verifyDigest(key, schemeOf(key, options, hash), digest, bytes);
      }
    }

    // ---- Functions

    // Returns the scheme, and the data that the scheme signs.
    function prepare(key, options, algorithm, data) {
      const bytes = bytesOf(data, undefined, "data");
      if (kindOf(key) === "Ed25519") {
        if (algorithm !== null && algorithm !== undefined) throw invalidDigest(algorithm);
        if (TypedArrayPrototypeGetByteLength(bytes) > LONGEST) {
          throw outOfRange("data.length", `<= ${LONGEST} for Ed25519, whose messages are not hashed in parts`, TypedArrayPrototypeGetByteLength(bytes));
        }
        return { __proto__: null, scheme: schemeOf(key, options, undefined), digest: bytes };
      }
      const hash = signedHash(algorithm ?? "sha256");
      return { __proto__: null, scheme: schemeOf(key, options, hash), digest: hashes.digestOf(hash, bytes) };
    }

    function sign(algorithm, data, key, callback = undefined) {
      if (callback !== undefined) needFunction(callback, "callback");
      const keyObject = privateKeyOf(key);
      if (callback !== undefined && kindOf(keyObject) === "RSA") {
        signElsewhere(algorithm, data, key, keyObject, callback);
        return undefined;
      }
      const { scheme, digest } = prepare(keyObject, key, algorithm, data);
      const signature = signDigest(keyObject, scheme, digest);
      if (callback === undefined) return signature;
      callLater(callback, null, signature);
      return undefined;
    }
    // Signs with RSA on another thread.
    function signElsewhere(algorithm, data, options, key, callback) {
      const hash = signedHash(algorithm ?? "sha256");
      const scheme = schemeOf(key, options, hash);
      const bytes = bytesOf(data, undefined, "data");
      const longest = MathCeil((ops.keyBits(handleOf(key)) - 1) / 8) - DIGESTS[hash] - 2;
      const salt = scheme.saltLength === SALT_OF_DIGEST ? DIGESTS[hash]
        : scheme.saltLength === LONGEST_SALT ? MathMax(longest, 0) : scheme.saltLength;
      const name = scheme.name === "pss" ? "RSA-PSS" : "RSASSA-PKCS1-v1_5";
      settle(ops.cryptoSign(name, handleOf(key), bytes, hash, salt), callback, (signature) => Buffer.from(signature));
    }

    function verify(algorithm, data, key, signature, callback = undefined) {
      if (callback !== undefined) needFunction(callback, "callback");
      const keyObject = publicKeyOf(key);
      const bytes = bytesOf(signature, undefined, "signature");
      const { scheme, digest } = prepare(keyObject, key, algorithm, data);
      const isValid = verifyDigest(keyObject, scheme, digest, bytes);
      if (callback === undefined) return isValid;
      callLater(callback, null, isValid);
      return undefined;
    }

    return {
      Sign, Verify,
      createSign: (algorithm, options) => new Sign(algorithm, options),
      createVerify: (algorithm, options) => new Verify(algorithm, options),
      sign, verify,
    };
  });
})
