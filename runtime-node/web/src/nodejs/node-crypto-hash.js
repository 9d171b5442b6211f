// node:crypto: hashes and HMACs, also as streams. Native code hashes a part of the data per call,
// so that the watchdog can terminate a Worker between calls.
//: module
(function (internal) {
  "use strict";

  const { Error, TypeError, TypedArrayPrototypeGetByteLength, Uint8Array } = internal.primordials;
  const { ops } = internal;

  // The length of the longest digest, in bytes.
  const LONGEST = 64;
  // The maximum length of an HMAC's key that native code receives, in bytes.
  const LONGEST_KEY = 2 ** 18;
  const HASHES = ["RSA-MD5", "RSA-RIPEMD160", "RSA-SHA1", "RSA-SHA224", "RSA-SHA256", "RSA-SHA384", "RSA-SHA512", "md5", "ripemd160",
    "sha1", "sha224", "sha256", "sha3-224", "sha3-256", "sha3-384", "sha3-512", "sha384", "sha512", "sha512-256"];

  internal.define("cryptoHashes", () => {
    const { coded, defineHidden, needInteger, needString } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { Transform } = internal.use("duplex");
    const { bytesOf, encoded, inSteps, keeper, lazily } = internal.use("cryptoData");

    const { forget, keep } = keeper((number) => ops.hashClose(number));

    function open(name, key, what) {
      const number = ops.hashOpen(needString(name, what), key);
      if (number === undefined) {
        throw what === "algorithm" ? coded(Error, "ERR_OSSL_EVP_UNSUPPORTED", `Digest method not supported: ${name}`)
          : coded(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${name}`);
      }
      return number;
    }
    const feed = (number, bytes) => inSteps(bytes, (part) => ops.hashUpdate(number, part));
    function finish(number) {
      const digest = new Uint8Array(LONGEST);
      const length = ops.hashFinish(number, digest);
      return Buffer.from(digest.buffer, 0, length);
    }
    // Returns the digest of bytes.
    function digestOf(name, bytes) {
      const number = open(name, undefined, "digest");
      feed(number, bytes);
      return finish(number);
    }
    // An HMAC replaces a long key with its hash (RFC 2104 §2), which native code would compute in
    // one call.
    const shortKey = (name, key) => (TypedArrayPrototypeGetByteLength(key) <= LONGEST_KEY ? key : digestOf(name, key));
    function hmac(name, key, ...parts) {
      const number = open(name, key, "digest");
      for (let i = 0; i < parts.length; i++) feed(number, parts[i]);
      return finish(number);
    }

    const finalized = () => coded(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
    let take, copyOf;

    class Hasher extends lazily(Transform) {
      #number;
      #done = false;

      static {
        take = (hasher) => {
          if (hasher.#done) return null;
          hasher.#done = true;
          forget(hasher);
          return finish(hasher.#number);
        };
        copyOf = (hasher) => {
          if (hasher.#done) throw finalized();
          return ops.hashCopy(hasher.#number);
        };
      }

      constructor(number, options) {
        super(options);
        this.#number = keep(this, number);
      }

      update(data, encoding = undefined) {
        if (this.#done) throw finalized();
        feed(this.#number, bytesOf(data, encoding, "data"));
        return this;
      }
    }
    defineHidden(Hasher.prototype, {
      _transform(chunk, encoding, done) {
        this.update(chunk, encoding);
        done();
      },
      _flush(done) {
        this.push(this.digest());
        done();
      },
    });

    // The token with which `copy` passes the number of a copied hasher instead of an algorithm.
    const COPY = { __proto__: null };
    class Hash extends Hasher {
      constructor(algorithm, options = undefined, copied = undefined) {
        super(copied === COPY ? algorithm : open(algorithm, undefined, "algorithm"), options);
        const length = options?.outputLength;
        if (length === undefined) return;
        needInteger(length, "options.outputLength", 0, 2 ** 32 - 1);
        if (length !== finish(copyOf(this)).length) {
          throw coded(Error, "ERR_OSSL_EVP_NOT_XOF_OR_INVALID_LENGTH", "The digest of this hash does not have the length outputLength");
        }
      }

      digest(encoding = undefined) {
        const digest = take(this);
        if (digest === null) throw finalized();
        return encoded(digest, encoding);
      }

      copy(options = undefined) {
        return new Hash(copyOf(this), options, COPY);
      }
    }
    class Hmac extends Hasher {
      constructor(algorithm, key, options = undefined) {
        const bytes = internal.use("cryptoKeyObjects").secretOf(key, options?.encoding, "key");
        super(open(algorithm, shortKey(needString(algorithm, "hmac"), bytes), "hmac"), options);
      }

      digest(encoding = undefined) {
        return encoded(take(this) ?? Buffer.alloc(0), encoding);
      }
    }

    // The Web Crypto names of the hashes that signatures and RSA-OAEP support, and with which
    // `pbkdf2` derives on another thread.
    const WEB = { __proto__: null, "sha1": "SHA-1", "sha256": "SHA-256", "sha384": "SHA-384", "sha512": "SHA-512" };
    const webName = (name) =>
      WEB[needString(name, "algorithm").toLowerCase().replace(/^rsa-|withrsaencryption$/, "").replace("-", "")];

    return {
      __proto__: null, digestOf, feed, finish, hmac, keep, forget, open, shortKey, webName,
      exported: {
        Hash, Hmac,
        createHash: (algorithm, options) => new Hash(algorithm, options),
        createHmac: (algorithm, key, options) => new Hmac(algorithm, key, options),
        getHashes: () => [...HASHES],
        hash: (algorithm, data, encoding = "hex") => {
          const number = open(algorithm, undefined, "algorithm");
          feed(number, bytesOf(data, undefined, "input"));
          return encoded(finish(number), encoding);
        },
      },
    };
  });
})
