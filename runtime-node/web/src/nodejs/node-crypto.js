// node:crypto: hashes, HMACs, key derivation, randomness and Web Crypto. Native code hashes 256 KiB
// per call, so that the watchdog can terminate a Worker between calls.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayBufferIsView, Error, FinalizationRegistry, FinalizationRegistryPrototypeRegister,
    FinalizationRegistryPrototypeUnregister, MathMin, PromisePrototypeThen, RangeError,
    ReflectApply, TypeError,
    TypedArrayPrototypeGetByteLength, Uint8Array,
  } = internal.primordials;
  const { ops } = internal;
  const { bufferSource } = internal.webidl;
  const { setTimeout } = internal.platform;

  const STEP = 2 ** 18;
  // The length of the longest digest, in bytes.
  const LONGEST = 64;
  // The number of PBKDF2 iterations per native call, which take about half a millisecond.
  const ITERATIONS = 500;
  // The number of random bytes per native call.
  const RANDOM = 2 ** 16;
  const HASHES = ["RSA-MD5", "RSA-RIPEMD160", "RSA-SHA1", "RSA-SHA224", "RSA-SHA256", "RSA-SHA384", "RSA-SHA512", "md5", "ripemd160",
    "sha1", "sha224", "sha256", "sha3-224", "sha3-256", "sha3-384", "sha3-512", "sha384", "sha512", "sha512-256"];

  internal.define("crypto", () => {
    const { coded, invalid, needFunction, needInteger, needString, outOfRange } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { crypto: webcrypto } = internal.crypto();

    const DATA = "of type string or an instance of Buffer, TypedArray, DataView, or ArrayBuffer";
    // Returns the bytes of a string or a buffer source.
    function bytesOf(value, encoding, name) {
      if (typeof value === "string") return Buffer.from(value, encoding === "buffer" ? undefined : encoding);
      const bytes = bufferSource(value);
      if (bytes === null) throw invalid(name, DATA, value);
      return bytes;
    }
    const as = (bytes, encoding) => (encoding === undefined || encoding === "buffer" ? bytes : bytes.toString(encoding));

    const later = (callback, ...results) => setTimeout(() => {
      try {
        ReflectApply(callback, undefined, results);
      } catch (error) {
        internal.reportError(error);
      }
    }, 0);

    // ---- Hashes

    // A registry that closes the native state of a hash that is collected before `digest` is
    // called. It is created on first use, because a snapshot cannot contain a FinalizationRegistry.
    let forgotten = null;
    function keep(owner, number) {
      forgotten ??= new FinalizationRegistry((number) => ops.hashClose(number));
      FinalizationRegistryPrototypeRegister(forgotten, owner, number, owner);
      return number;
    }

    function open(name, key, what) {
      const number = ops.hashOpen(needString(name, what), key);
      if (number === undefined) {
        throw what === "algorithm" ? coded(Error, "ERR_OSSL_EVP_UNSUPPORTED", `Digest method not supported: ${name}`)
          : coded(TypeError, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${name}`);
      }
      return number;
    }
    function feed(number, bytes) {
      const length = TypedArrayPrototypeGetByteLength(bytes);
      if (length <= STEP) {
        ops.hashUpdate(number, bytes);
        return;
      }
      for (let at = 0; at < length; at += STEP) {
        ops.hashUpdate(number, new Uint8Array(bytes.buffer, bytes.byteOffset + at, MathMin(STEP, length - at)));
      }
    }
    function finish(number) {
      const room = new Uint8Array(LONGEST);
      const length = ops.hashFinish(number, room);
      return Buffer.from(room.buffer, 0, length);
    }
    // An HMAC replaces a long key with its hash (RFC 2104 §2), which native code would compute in
    // one call.
    function shortKey(name, key) {
      if (TypedArrayPrototypeGetByteLength(key) <= STEP) return key;
      const number = open(name, undefined, "digest");
      feed(number, key);
      return finish(number);
    }

    class Hasher {
      #number;
      #done = false;

      constructor(number) {
        this.#number = keep(this, number);
      }

      update(data, encoding = undefined) {
        if (this.#done) throw this.#over();
        feed(this.#number, bytesOf(data, encoding, "data"));
        return this;
      }

      digest(encoding = undefined) {
        if (this.#done) throw this.#over();
        this.#done = true;
        FinalizationRegistryPrototypeUnregister(forgotten, this);
        return as(finish(this.#number), encoding);
      }

      #over() {
        return coded(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
      }

      static copyOf(hasher) {
        if (hasher.#done) throw hasher.#over();
        return ops.hashCopy(hasher.#number);
      }
    }
    const { copyOf } = Hasher;
    delete /** @type {any} */ (Hasher).copyOf;

    class Hash extends Hasher {
      constructor(algorithm, copied = undefined) {
        super(copied === COPY ? algorithm : open(algorithm, undefined, "algorithm"));
      }
      copy() {
        return new Hash(copyOf(this), COPY);
      }
    }
    class Hmac extends Hasher {
      constructor(algorithm, key) {
        const bytes = bytesOf(key, undefined, "key");
        super(open(algorithm, shortKey(needString(algorithm, "hmac"), bytes), "hmac"));
      }
    }
    const COPY = { __proto__: null };

    const createHash = (algorithm) => new Hash(algorithm);
    const createHmac = (algorithm, key) => new Hmac(algorithm, key);
    const hash = (algorithm, data, encoding = "hex") => {
      const number = open(algorithm, undefined, "algorithm");
      feed(number, bytesOf(data, undefined, "input"));
      return as(finish(number), encoding);
    };
    function hmac(name, key, ...parts) {
      const number = open(name, key, "digest");
      for (let i = 0; i < parts.length; i++) feed(number, parts[i]);
      return finish(number);
    }

    // ---- Derivation

    const MOST = 2 ** 31 - 1;

    // PBKDF2 (RFC 8018 §5.2).
    function pbkdf2Sync(password, salt, iterations, keylen, digest) {
      needString(digest, "digest");
      const secret = shortKey(digest, bytesOf(password, undefined, "password"));
      const salted = bytesOf(salt, undefined, "salt");
      needInteger(iterations, "iterations", 1, MOST);
      needInteger(keylen, "keylen", 0, MOST);
      const number = open(digest, secret, "digest");
      const out = Buffer.alloc(keylen);
      try {
        for (let at = 0, block = 1; at < keylen; block++) {
          const index = Buffer.alloc(4);
          index.writeUInt32BE(block);
          const last = hmac(digest, secret, salted, index);
          const sum = Buffer.from(last);
          for (let left = iterations - 1; left > 0; left -= ITERATIONS) {
            ops.hashIterate(number, last, sum, MathMin(left, ITERATIONS));
          }
          at += sum.copy(out, at);
        }
      } finally {
        ops.hashClose(number);
      }
      return out;
    }

    // The names in Web Crypto of the hashes with which Web Crypto derives the bits, on another
    // thread.
    const WEB = { __proto__: null, "sha1": "SHA-1", "sha256": "SHA-256", "sha384": "SHA-384", "sha512": "SHA-512" };
    function pbkdf2(password, salt, iterations, keylen, digest, callback) {
      needFunction(callback, "callback");
      const name = WEB[needString(digest, "digest").toLowerCase().replace("-", "")];
      if (name === undefined || keylen === 0) {
        const made = pbkdf2Sync(password, salt, iterations, keylen, digest);
        later(callback, null, made);
        return;
      }
      const secret = bytesOf(password, undefined, "password");
      const salted = bytesOf(salt, undefined, "salt");
      needInteger(iterations, "iterations", 1, MOST);
      needInteger(keylen, "keylen", 0, MOST);
      PromisePrototypeThen(deriveBitsOf(name, secret, salted, iterations, keylen),
        (bits) => later(callback, null, Buffer.from(bits)), (error) => later(callback, error));
    }
    async function deriveBitsOf(name, secret, salt, iterations, length) {
      const { subtle } = webcrypto;
      const key = await subtle.importKey("raw", secret, "PBKDF2", false, ["deriveBits"]);
      return await subtle.deriveBits({ name: "PBKDF2", hash: name, salt, iterations }, key, length * 8);
    }

    function hkdfSync(digest, ikm, salt, info, keylen) {
      needString(digest, "digest");
      const secret = bytesOf(ikm, undefined, "ikm");
      const salted = shortKey(digest, bytesOf(salt, undefined, "salt"));
      const context = bytesOf(info, undefined, "info");
      needInteger(keylen, "length", 0, MOST);
      if (TypedArrayPrototypeGetByteLength(context) > 1024) throw outOfRange("info", "must not contain more than 1024 bytes", context);
      const extracted = hmac(digest, salted, secret);
      if (keylen > 255 * extracted.length) throw coded(RangeError, "ERR_CRYPTO_INVALID_KEYLEN", "Invalid key length");
      const out = Buffer.alloc(keylen);
      let last = Buffer.alloc(0);
      for (let at = 0, block = 1; at < keylen; block++) {
        last = hmac(digest, extracted, last, context, Buffer.from([block]));
        at += last.copy(out, at);
      }
      return out.buffer;
    }
    function hkdf(digest, ikm, salt, info, keylen, callback) {
      needFunction(callback, "callback");
      const made = hkdfSync(digest, ikm, salt, info, keylen);
      later(callback, null, made);
    }

    // ---- Randomness

    function fill(bytes) {
      const length = TypedArrayPrototypeGetByteLength(bytes);
      for (let at = 0; at < length; at += RANDOM) {
        ops.randomFill(new Uint8Array(bytes.buffer, bytes.byteOffset + at, MathMin(RANDOM, length - at)));
      }
      return bytes;
    }
    function randomBytes(size, callback = undefined) {
      needInteger(size, "size", 0, MOST);
      if (callback !== undefined) needFunction(callback, "callback");
      const bytes = fill(Buffer.alloc(size));
      if (callback === undefined) return bytes;
      later(callback, null, bytes);
      return undefined;
    }
    function randomFillSync(view, offset = 0, size = undefined) {
      const bytes = bufferSource(view);
      if (bytes === null) throw invalid("buf", "an instance of ArrayBuffer or ArrayBufferView", view);
      const unit = ArrayBufferIsView(view) ? view.BYTES_PER_ELEMENT ?? 1 : 1;
      const length = TypedArrayPrototypeGetByteLength(bytes);
      const from = needInteger(offset, "offset", 0, length / unit) * unit;
      const count = size === undefined ? length - from : needInteger(size, "size", 0, (length - from) / unit) * unit;
      fill(new Uint8Array(bytes.buffer, bytes.byteOffset + from, count));
      return view;
    }
    function randomFill(view, ...rest) {
      const callback = needFunction(rest[rest.length - 1], "callback");
      const filled = randomFillSync(view, rest.length > 1 ? rest[0] : undefined, rest.length > 2 ? rest[1] : undefined);
      later(callback, null, filled);
    }

    // Returns a random integer. Random numbers from the incomplete last range are discarded, so
    // that every integer is equally likely.
    function randomInt(min, max = undefined, callback = undefined) {
      if (max === undefined || typeof max === "function") return randomInt(0, min, max);
      needInteger(min, "min");
      needInteger(max, "max");
      const range = max - min;
      if (range <= 0) throw outOfRange("max", `greater than the value of "min" (${min})`, max);
      if (range > 2 ** 48 - 1) throw outOfRange("max - min", `<= ${2 ** 48 - 1}`, range);
      const even = 2 ** 48 - (2 ** 48 % range);
      const bytes = Buffer.alloc(6);
      let number;
      do number = fill(bytes).readUIntBE(0, 6); while (number >= even);
      const chosen = min + (number % range);
      if (callback === undefined) return chosen;
      later(needFunction(callback, "callback"), null, chosen);
      return undefined;
    }

    function timingSafeEqual(a, b) {
      const one = bufferSource(a), other = bufferSource(b);
      if (one === null) throw invalid("buf1", "an instance of ArrayBuffer, Buffer, TypedArray, or DataView", a);
      if (other === null) throw invalid("buf2", "an instance of ArrayBuffer, Buffer, TypedArray, or DataView", b);
      const length = TypedArrayPrototypeGetByteLength(one);
      if (length !== TypedArrayPrototypeGetByteLength(other)) {
        throw coded(RangeError, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length");
      }
      return internal.sameBytes().same(one, other);
    }

    return {
      Hash, Hmac, createHash, createHmac,
      getHashes: () => [...HASHES],
      getRandomValues: (array) => webcrypto.getRandomValues(array),
      hash, hkdf, hkdfSync, pbkdf2, pbkdf2Sync, randomBytes, randomFill, randomFillSync, randomInt,
      randomUUID: () => ops.randomUuid(),
      subtle: webcrypto.subtle,
      timingSafeEqual, webcrypto,
    };
  });
})
