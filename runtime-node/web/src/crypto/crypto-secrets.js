// Algorithms with secret keys: AES (Web Cryptography §27 to §30), HMAC (§31), HKDF (§33) and PBKDF2
// (§34).
//
// Each algorithm is a record of the operations that it supports. Key bytes are passed as a
// Uint8Array or as the handle of a native secret.
//: late, after crypto-jwk.js
(function (internal) {
  "use strict";

  const { TypeError } = internal.primordials;

  internal.later("cryptoSecrets", [], () => {
    const { ops } = internal;
    const {
      algorithmOf, dataError, error, extractableOf, handleOf, newKey, notSupported, only, operationError, usage, usageList,
      usagesOf,
    } = internal.cryptoKeys();
    const { bytesOf, expectAlgorithm, expectKind, expectPurpose, toText } = internal.cryptoJwk();
    const { ENCRYPT, DECRYPT, SIGN, VERIFY, DERIVE_KEY, DERIVE_BITS, WRAP, UNWRAP } = usage;

    const unknownFormat = (format, name) => notSupported(`${name} keys have no format '${format}'; use 'raw' or 'jwk'`);

    // Returns a key as a JSON Web Key with this `alg`.
    const secretJwk = (key, alg) => ({
      kty: "oct",
      k: toText(ops.keyPart(handleOf(key), "raw")),
      alg,
      key_ops: usageList(usagesOf(key)),
      ext: extractableOf(key),
    });
    const exportSecret = (format, key, alg) => {
      if (format === "raw") return ops.keyPart(handleOf(key), "raw");
      if (format === "jwk") return secretJwk(key, alg);
      throw unknownFormat(format, algorithmOf(key).name);
    };

    // ---- AES

    const expectAesLength = (length, name) => {
      if (length !== 128 && length !== 192 && length !== 256) {
        throw operationError(`${name} keys have 128, 192 or 256 bits, not ${length}`);
      }
      return length;
    };
    const expectLength = (bytes, length, what) => {
      if (bytes.length !== length) throw operationError(`${what} must have ${length} bytes, not ${bytes.length}`);
    };

    const aes = (name, allowed, operations) => {
      const suffix = name === "AES-CTR" ? "CTR" : name === "AES-CBC" ? "CBC" : name === "AES-GCM" ? "GCM" : "KW";
      return {
        __proto__: null,
        generateKey({ length }, extractable, usages) {
          only(usages, allowed, name);
          const handle = ops.secretGenerate(expectAesLength(length, name));
          return newKey("secret", { __proto__: null, name, length }, extractable, usages, handle);
        },
        importKey(format, data, _, extractable, usages) {
          only(usages, allowed, name);
          let bytes = data;
          if (format === "jwk") {
            expectKind(data, "oct");
            bytes = bytesOf(data, "k");
          } else if (format !== "raw") {
            throw unknownFormat(format, name);
          }
          const handle = ops.secretImport(bytes);
          const length = ops.keyBits(handle);
          if (length !== 128 && length !== 192 && length !== 256) {
            throw dataError(`${name} keys have 128, 192 or 256 bits, not ${length}`);
          }
          if (format === "jwk") {
            expectAlgorithm(data, `A${length}${suffix}`);
            expectPurpose(data, "enc", extractable, usages);
          }
          return newKey("secret", { __proto__: null, name, length }, extractable, usages, handle);
        },
        exportKey: (format, key) => exportSecret(format, key, `A${algorithmOf(key).length}${suffix}`),
        keyLength: ({ length }) => expectAesLength(length, name),
        ...operations,
      };
    };

    // Defines `encrypt` and `decrypt` with one function, whose first argument is true to encrypt.
    // If `secret` is true, the result is a ticket.
    const crypt = (run) => ({
      __proto__: null,
      encrypt: (algorithm, key, data, secret = false) => run(true, algorithm, handleOf(key), data, secret),
      decrypt: (algorithm, key, data, secret = false) => run(false, algorithm, handleOf(key), data, secret),
    });

    const ctr = crypt((encrypt, { counter, length }, handle, data, secret) => {
      expectLength(counter, 16, "The counter of AES-CTR");
      if (length < 1 || length > 128) {
        throw operationError(`The counter of AES-CTR must have a length of 1 to 128 bits, not ${length}`);
      }
      return ops.cryptoCrypt("AES-CTR", encrypt, handle, data, secret, counter, undefined, length);
    });
    const cbc = crypt((encrypt, { iv }, handle, data, secret) => {
      expectLength(iv, 16, "The iv of AES-CBC");
      return ops.cryptoCrypt("AES-CBC", encrypt, handle, data, secret, iv);
    });
    const gcm = crypt((encrypt, { iv, additionalData, tagLength }, handle, data, secret) => {
      switch (tagLength) {
        case undefined: case 32: case 64: case 96: case 104: case 112: case 120: case 128:
          break;
        default:
          throw operationError(`Tags of AES-GCM have 32, 64, 96, 104, 112, 120 or 128 bits, not ${tagLength}`);
      }
      if (iv.length === 0) throw operationError("The iv of AES-GCM must not be empty");
      return ops.cryptoCrypt("AES-GCM", encrypt, handle, data, secret, iv, additionalData, tagLength ?? 128);
    });
    const kw = {
      __proto__: null,
      wrapKey: (_, key, data) => ops.cryptoCrypt("AES-KW", true, handleOf(key), data, false),
      unwrapKey: (_, key, data, secret) => ops.cryptoCrypt("AES-KW", false, handleOf(key), data, secret),
    };

    // ---- HMAC

    const HASHES = { __proto__: null, "SHA-1": "HS1", "SHA-256": "HS256", "SHA-384": "HS384", "SHA-512": "HS512" };
    const blockLength = (hash) => (hash === "SHA-1" || hash === "SHA-256" ? 512 : 1024);
    const hmacKey = (hash, handle, extractable, usages) =>
      newKey("secret", { __proto__: null, name: "HMAC", hash, length: ops.keyBits(handle) }, extractable, usages, handle);
    // The maximum length of a generated key, in bits. HMAC hashes keys that are longer than a block
    // before it uses them, so a longer key would not be stronger.
    const MAX_BITS = 2 ** 19;

    const hmac = {
      __proto__: null,
      generateKey({ hash, length }, extractable, usages) {
        only(usages, SIGN | VERIFY, "HMAC");
        const bits = length ?? blockLength(hash);
        if (bits === 0 || bits > MAX_BITS) {
          throw operationError(`HMAC keys are generated with 1 to ${MAX_BITS} bits, not with ${bits}`);
        }
        return hmacKey(hash, ops.secretGenerate(bits), extractable, usages);
      },
      importKey(format, data, { hash, length }, extractable, usages) {
        only(usages, SIGN | VERIFY, "HMAC");
        let bytes = data;
        if (format === "jwk") {
          expectKind(data, "oct");
          bytes = bytesOf(data, "k");
          expectAlgorithm(data, HASHES[hash]);
          expectPurpose(data, "sig", extractable, usages);
        } else if (format !== "raw") {
          throw unknownFormat(format, "HMAC");
        }
        let handle = ops.secretImport(bytes);
        const bits = ops.keyBits(handle);
        if (bits === 0) throw dataError("HMAC keys must not be empty");
        if (length !== undefined) {
          if (length > bits || length <= bits - 8) throw dataError(`'length' is ${length} for a key of ${bits} bits`);
          handle = ops.secretImport(handle, length);
        }
        return hmacKey(hash, handle, extractable, usages);
      },
      exportKey: (format, key) => exportSecret(format, key, HASHES[algorithmOf(key).hash]),
      keyLength({ hash, length }) {
        if (length === 0) throw new TypeError("HMAC keys must not be empty");
        return length ?? blockLength(hash);
      },
      sign: (_, key, data) => ops.cryptoSign("HMAC", handleOf(key), data, algorithmOf(key).hash),
      verify: (_, key, signature, data) => ops.cryptoVerify("HMAC", handleOf(key), signature, data, algorithmOf(key).hash),
    };

    // ---- HKDF and PBKDF2

    const derivation = (name, deriveBits) => ({
      __proto__: null,
      importKey(format, data, _, extractable, usages) {
        if (format !== "raw") throw notSupported(`${name} keys have no format '${format}'; use 'raw'`);
        only(usages, DERIVE_KEY | DERIVE_BITS, name);
        if (extractable) throw error("SyntaxError", `${name} keys cannot be extractable`);
        return newKey("secret", { __proto__: null, name }, false, usages, ops.secretImport(data));
      },
      keyLength: () => null,
      deriveBits(algorithm, key, length) {
        if (length === null || length % 8 !== 0) throw operationError(`${name} derives a multiple of 8 bits, not ${length}`);
        return deriveBits(algorithm, handleOf(key), length);
      },
    });

    return {
      __proto__: null,
      "AES-CTR": aes("AES-CTR", ENCRYPT | DECRYPT | WRAP | UNWRAP, ctr),
      "AES-CBC": aes("AES-CBC", ENCRYPT | DECRYPT | WRAP | UNWRAP, cbc),
      "AES-GCM": aes("AES-GCM", ENCRYPT | DECRYPT | WRAP | UNWRAP, gcm),
      "AES-KW": aes("AES-KW", WRAP | UNWRAP, kw),
      HMAC: hmac,
      HKDF: derivation("HKDF", ({ hash, salt, info }, handle, length) => ops.cryptoHkdf(handle, hash, salt, info, length)),
      PBKDF2: derivation("PBKDF2", ({ hash, salt, iterations }, handle, length) => {
        if (iterations === 0) throw operationError("PBKDF2 takes at least one iteration");
        return ops.cryptoPbkdf2(handle, hash, salt, iterations, length);
      }),
    };
  });
})
