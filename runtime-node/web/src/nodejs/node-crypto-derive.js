// node:crypto: PBKDF2 (RFC 8018 §5.2), HKDF (RFC 5869) and scrypt (RFC 7914). `scrypt` derives on
// another thread, and so does `pbkdf2` with a hash that Web Crypto supports. All other functions
// derive in steps, so that the watchdog can terminate a Worker between native calls.
//: module
(function (internal) {
  "use strict";

  const { MathMin, RangeError, TypedArrayPrototypeGetByteLength } = internal.primordials;
  const { ops } = internal;

  // The number of PBKDF2 iterations per native call. They take about half a millisecond.
  const ITERATIONS = 500;
  // The maximum length of scrypt's salt in bytes. PBKDF2 hashes the salt again for every 32 bytes
  // that it derives.
  const LONGEST_SALT = 2 ** 20;
  // The default of the option `maxmem`, in bytes, as in Node.js.
  const MAX_MEMORY = 32 * 2 ** 20;

  internal.define("cryptoDerivation", () => {
    const { coded, needFunction, needInteger, needObject, needString, outOfRange } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { MAX_INT32, bytesOf, callLater, settle } = internal.use("cryptoData");
    const { hmac, open, shortKey, webName } = internal.use("cryptoHashes");
    const { secretOf } = internal.use("cryptoKeyObjects");

    // ---- PBKDF2

    function pbkdf2Sync(password, salt, iterations, keylen, digest) {
      needString(digest, "digest");
      const secret = shortKey(digest, bytesOf(password, undefined, "password"));
      const saltBytes = bytesOf(salt, undefined, "salt");
      needInteger(iterations, "iterations", 1, MAX_INT32);
      needInteger(keylen, "keylen", 0, MAX_INT32);
      const number = open(digest, secret, "digest");
      const out = Buffer.alloc(keylen);
      try {
        for (let at = 0, block = 1; at < keylen; block++) {
          const index = Buffer.alloc(4);
          index.writeUInt32BE(block);
          const last = hmac(digest, secret, saltBytes, index);
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

    function pbkdf2(password, salt, iterations, keylen, digest, callback) {
      needFunction(callback, "callback");
      const name = webName(needString(digest, "digest"));
      if (name === undefined || keylen === 0) {
        const key = pbkdf2Sync(password, salt, iterations, keylen, digest);
        callLater(callback, null, key);
        return;
      }
      const secret = bytesOf(password, undefined, "password");
      const saltBytes = bytesOf(salt, undefined, "salt");
      needInteger(iterations, "iterations", 1, MAX_INT32);
      needInteger(keylen, "keylen", 0, MAX_INT32);
      settle(deriveBitsOf(name, secret, saltBytes, iterations, keylen), callback, (bits) => Buffer.from(bits));
    }
    async function deriveBitsOf(name, secret, salt, iterations, length) {
      const { subtle } = internal.crypto().crypto;
      const key = await subtle.importKey("raw", secret, "PBKDF2", false, ["deriveBits"]);
      return await subtle.deriveBits({ name: "PBKDF2", hash: name, salt, iterations }, key, length * 8);
    }

    // ---- HKDF

    function hkdfSync(digest, ikm, salt, info, keylen) {
      needString(digest, "digest");
      const secret = secretOf(ikm, undefined, "ikm");
      const saltBytes = shortKey(digest, bytesOf(salt, undefined, "salt"));
      const context = bytesOf(info, undefined, "info");
      needInteger(keylen, "length", 0, MAX_INT32);
      if (TypedArrayPrototypeGetByteLength(context) > 1024) throw outOfRange("info", "must not contain more than 1024 bytes", context);
      const extracted = hmac(digest, saltBytes, secret);
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
      const key = hkdfSync(digest, ikm, salt, info, keylen);
      callLater(callback, null, key);
    }

    // ---- scrypt

    // Returns an option by either of its names.
    function option(options, name, alias, fallback, max) {
      const short = options[name], long = options[alias];
      if (short !== undefined && long !== undefined) {
        throw coded(RangeError, "ERR_INCOMPATIBLE_OPTION_PAIR", `Option "${name}" cannot be used in combination with option "${alias}"`);
      }
      const value = short ?? long;
      return value === undefined ? fallback : needInteger(value, short === undefined ? alias : name, 0, max);
    }
    const invalidCosts = (why) => coded(RangeError, "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", `Invalid scrypt params: ${why}`);

    function scryptArguments(password, salt, keylen, options = {}) {
      const secret = shortKey("sha256", bytesOf(password, undefined, "password"));
      const saltBytes = bytesOf(salt, undefined, "salt");
      needInteger(keylen, "keylen", 0, MAX_INT32);
      needObject(options, "options");
      const n = option(options, "N", "cost", 16_384, 2 ** 32 - 1);
      const r = option(options, "r", "blockSize", 8, 2 ** 32 - 1);
      const p = option(options, "p", "parallelization", 1, 2 ** 32 - 1);
      const max = options.maxmem === undefined ? MAX_MEMORY : needInteger(options.maxmem, "maxmem", 0);
      if (128 * n * r > max) throw invalidCosts("memory limit exceeded");
      if (!ops.scryptAllows(n, r, p)) throw invalidCosts("N must be a power of two, r at most 1024, and r * p at most 8192");
      if (TypedArrayPrototypeGetByteLength(saltBytes) > LONGEST_SALT) {
        throw outOfRange("salt", `of at most ${LONGEST_SALT} bytes`, TypedArrayPrototypeGetByteLength(saltBytes));
      }
      return { __proto__: null, secret, saltBytes, n, r, p };
    }

    function scryptSync(password, salt, keylen, options = undefined) {
      const { secret, saltBytes, n, r, p } = scryptArguments(password, salt, keylen, options);
      const number = ops.scryptOpen(secret, saltBytes, n, r, p, keylen);
      try {
        for (;;) {
          const key = ops.scryptStep(number);
          if (key !== undefined) return Buffer.from(key);
        }
      } finally {
        ops.scryptClose(number);
      }
    }
    function scrypt(password, salt, keylen, options, callback = undefined) {
      if (callback === undefined) {
        callback = options;
        options = undefined;
      }
      needFunction(callback, "callback");
      const { secret, saltBytes, n, r, p } = scryptArguments(password, salt, keylen, options);
      settle(ops.scryptDerive(secret, saltBytes, n, r, p, keylen), callback, (key) => Buffer.from(key));
    }

    return { hkdf, hkdfSync, pbkdf2, pbkdf2Sync, scrypt, scryptSync };
  });
})
