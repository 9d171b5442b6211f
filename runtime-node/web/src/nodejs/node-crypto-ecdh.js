// node:crypto: shared secrets of elliptic curves (ECDH) and of X25519 (RFC 7748).
//: module
(function (internal) {
  "use strict";

  const { Error, TypeError, Uint8Array } = internal.primordials;
  const { ops } = internal;

  // The lengths of private keys, in bytes.
  const LENGTHS = { __proto__: null, "P-256": 32, "P-384": 48, "P-521": 66 };
  const CURVES = ["prime256v1", "secp384r1", "secp521r1"];

  internal.define("cryptoAgreement", () => {
    const { coded, needFunction, needObject } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { bytesOf, callLater, encoded } = internal.use("cryptoData");
    const { converted, handleOf, kindOf, privateKeyOf, publicKeyOf, typeOf } = internal.use("cryptoKeyObjects");
    const { curveOf } = internal.use("cryptoGeneration");

    const invalidPoint = () => coded(Error, "ERR_CRYPTO_ECDH_INVALID_PUBLIC_KEY", "Public key is not valid for specified curve");
    const noKey = (what) => coded(Error, "ERR_CRYPTO_ECDH_INVALID_PUBLIC_KEY", `Failed to get ECDH ${what} key`);

    // Returns the bytes of a point, in one of the formats of Node.js.
    function point(curve, bytes, format) {
      if (format !== undefined && format !== "uncompressed" && format !== "compressed" && format !== "hybrid") {
        throw coded(TypeError, "ERR_CRYPTO_ECDH_INVALID_FORMAT", `Invalid ECDH format: ${format}`);
      }
      const encoding = ops.pointConvert(curve, bytes, format === "compressed");
      if (encoding === undefined) throw invalidPoint();
      const out = Buffer.from(encoding);
      // The first byte of the hybrid form also states whether y is odd, as that of the compressed
      // form does (SEC 1 §2.3.3).
      if (format === "hybrid") out[0] = 6 + out[out.length - 1] % 2;
      return out;
    }

    // Returns the secret that a private and a public key share.
    const agree = (privateHandle, publicHandle) => {
      const ticket = ops.cryptoAgree(privateHandle, publicHandle);
      return Buffer.from(ops.keyPart(ops.keyTake(/** @type {any} */ (ticket)), "raw"));
    };

    class ECDH {
      #curve;
      #private = null;
      /** @type {any} */
      #public = null;

      constructor(curve) {
        this.#curve = curveOf(curve, "curve");
      }

      generateKeys(encoding = undefined, format = undefined) {
        this.#private = ops.curveGenerate(this.#curve);
        this.#public = new Uint8Array(ops.keyPart(this.#private, "raw"));
        return this.getPublicKey(encoding, format);
      }

      computeSecret(otherPublicKey, inputEncoding = undefined, outputEncoding = undefined) {
        const other = point(this.#curve, bytesOf(otherPublicKey, inputEncoding, "otherPublicKey"), undefined);
        if (this.#private === null) throw noKey("private");
        return encoded(agree(this.#private, ops.keyImport(this.#curve, "raw", other)), outputEncoding);
      }

      getPrivateKey(encoding = undefined) {
        if (this.#private === null) throw noKey("private");
        return encoded(Buffer.from(ops.keyPart(this.#private, "d")), encoding);
      }

      getPublicKey(encoding = undefined, format = undefined) {
        if (this.#public === null) throw noKey("public");
        return encoded(point(this.#curve, this.#public, format), encoding);
      }

      setPrivateKey(key, encoding = undefined) {
        const given = bytesOf(key, encoding, "key");
        const length = LENGTHS[this.#curve];
        const bytes = Buffer.alloc(length);
        const handle = given.length > length ? undefined : (bytes.set(given, length - given.length), ops.curveFromPrivate(this.#curve, bytes));
        if (handle === undefined) {
          throw coded(Error, "ERR_CRYPTO_INVALID_KEYTYPE", "Private key is not valid for specified curve.");
        }
        this.#private = handle;
        this.#public = new Uint8Array(ops.keyPart(handle, "raw"));
        return this;
      }

      setPublicKey(key, encoding = undefined) {
        this.#public = point(this.#curve, bytesOf(key, encoding, "key"), undefined);
        return this;
      }

      static convertKey(key, curve, inputEncoding = undefined, outputEncoding = undefined, format = undefined) {
        return encoded(point(curveOf(curve, "curve"), bytesOf(key, inputEncoding, "key"), format), outputEncoding);
      }
    }

    function diffieHellman(options, callback = undefined) {
      needObject(options, "options");
      if (callback !== undefined) needFunction(callback, "callback");
      const privateKey = privateKeyOf(options.privateKey, "options.privateKey");
      const publicKey = publicKeyOf(options.publicKey, "options.publicKey");
      const kind = kindOf(privateKey);
      if (kind !== kindOf(publicKey)) {
        throw coded(Error, "ERR_CRYPTO_INCOMPATIBLE_KEY", "Incompatible key types for Diffie-Hellman: the keys are on different curves");
      }
      if (kind === "RSA" || kind === "Ed25519" || typeOf(privateKey) !== "private") {
        throw coded(Error, "ERR_CRYPTO_INCOMPATIBLE_KEY", `Incompatible key type for Diffie-Hellman: ${kind}`);
      }
      const secret = converted(() => agree(handleOf(privateKey), handleOf(publicKey)));
      if (callback === undefined) return secret;
      callLater(callback, null, secret);
      return undefined;
    }

    return { ECDH, createECDH: (curve) => new ECDH(curve), diffieHellman, getCurves: () => [...CURVES] };
  });
})
