// node:crypto: AES in CBC, CTR, ECB and GCM mode, and ChaCha20-Poly1305 (RFC 8439), also as
// streams. Native code processes a part of the data per call.
//: module
(function (internal) {
  "use strict";

  const { Error, RangeError, TypeError, TypedArrayPrototypeGetByteLength, Uint8Array } = internal.primordials;
  const { ops } = internal;

  // For each cipher, the lengths of the key, the initialization vector and a block in bytes, and
  // OpenSSL's number (NID).
  const CIPHERS = {
    __proto__: null,
    "aes-128-cbc": [16, 16, 16, 419], "aes-128-ctr": [16, 16, 1, 904], "aes-128-ecb": [16, 0, 16, 418], "aes-128-gcm": [16, 12, 1, 895],
    "aes-192-cbc": [24, 16, 16, 423], "aes-192-ctr": [24, 16, 1, 905], "aes-192-ecb": [24, 0, 16, 422], "aes-192-gcm": [24, 12, 1, 898],
    "aes-256-cbc": [32, 16, 16, 427], "aes-256-ctr": [32, 16, 1, 906], "aes-256-ecb": [32, 0, 16, 426], "aes-256-gcm": [32, 12, 1, 901],
    "chacha20-poly1305": [32, 12, 1, 1018],
  };
  const NAMES = [
    "aes-128-cbc", "aes-128-ctr", "aes-128-ecb", "aes-128-gcm", "aes-192-cbc", "aes-192-ctr", "aes-192-ecb", "aes-192-gcm",
    "aes-256-cbc", "aes-256-ctr", "aes-256-ecb", "aes-256-gcm", "chacha20-poly1305",
  ];
  const ALIASES = {
    __proto__: null,
    "aes128": "aes-128-cbc", "aes192": "aes-192-cbc", "aes256": "aes-256-cbc",
    "id-aes128-gcm": "aes-128-gcm", "id-aes192-gcm": "aes-192-gcm", "id-aes256-gcm": "aes-256-gcm",
  };
  // The maximum length of an authentication tag, which is also the default, in bytes.
  const TAG = 16;

  internal.define("cryptoCiphers", () => {
    const { coded, defineHidden, needInteger, needObject, needString } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { Transform } = internal.use("duplex");
    const { StringDecoder } = internal.use("string_decoder");
    const { bytesOf, inSteps, keeper, lazily } = internal.use("cryptoData");
    const { secretOf } = internal.use("cryptoKeyObjects");

    const { forget, keep } = keeper((number) => ops.cipherClose(number));

    const canonical = (name) => {
      const lower = needString(name, "cipher").toLowerCase();
      return ALIASES[lower] ?? lower;
    };
    const isAuthenticated = (name) => name === "chacha20-poly1305" || name.endsWith("gcm");
    const isTagLength = (name, length) => (name === "chacha20-poly1305" ? length >= 1 && length <= TAG
      : length === 4 || length === 8 || (length >= 12 && length <= TAG));
    const invalidTag = (length) =>
      coded(TypeError, "ERR_CRYPTO_INVALID_AUTH_TAG", `Invalid authentication tag length: ${length}`);
    const invalidState = (what) => coded(Error, "ERR_CRYPTO_INVALID_STATE", `Invalid state for operation ${what}`);

    function open(name, encrypts, key, iv) {
      const parameters = CIPHERS[name];
      if (parameters === undefined) throw coded(Error, "ERR_CRYPTO_UNKNOWN_CIPHER", "Unknown cipher");
      const secret = secretOf(key, undefined, "key");
      const vector = iv === null && parameters[1] === 0 ? new Uint8Array(0) : bytesOf(iv, undefined, "iv");
      if (TypedArrayPrototypeGetByteLength(secret) !== parameters[0]) {
        throw coded(RangeError, "ERR_CRYPTO_INVALID_KEYLEN", "Invalid key length");
      }
      const number = ops.cipherOpen(name, encrypts, secret, vector);
      if (number === undefined) throw coded(TypeError, "ERR_CRYPTO_INVALID_IV", "Invalid initialization vector");
      return number;
    }

    let tagOf, expectTag;

    // A cipher with its native state. Its tag has `authTagLength` bytes, or 16 without this option.
    class Cipher extends lazily(Transform) {
      #number;
      #name;
      #encrypts;
      #tagLength;
      #tag = null;
      #isOver = false;
      /** @type {any} */
      #decoder = null;

      constructor(encrypts, cipher, key, iv, options) {
        const name = canonical(cipher);
        const length = options?.authTagLength;
        if (length !== undefined) {
          needInteger(length, "options.authTagLength", 0);
          if (isAuthenticated(name) && !isTagLength(name, length)) throw invalidTag(length);
        }
        super(options);
        this.#name = name;
        this.#encrypts = encrypts;
        this.#tagLength = length;
        this.#number = keep(this, open(name, encrypts, key, iv));
      }

      update(data, inputEncoding = undefined, outputEncoding = undefined) {
        const bytes = bytesOf(data, inputEncoding, "data");
        if (this.#isOver) throw coded(Error, "ERR_CRYPTO_INVALID_STATE", "Trying to add data in unsupported state");
        const pieces = [];
        inSteps(bytes, (part) => {
          const piece = ops.cipherUpdate(this.#number, part);
          if (piece === undefined) throw coded(Error, "ERR_CRYPTO_INVALID_STATE", "Trying to add data in unsupported state");
          pieces[pieces.length] = Buffer.from(piece);
        });
        return this.#output(pieces.length === 1 ? pieces[0] : Buffer.concat(pieces), outputEncoding, false);
      }

      final(outputEncoding = undefined) {
        if (this.#isOver) throw invalidState("final");
        this.#isOver = true;
        const number = this.#number;
        try {
          if (isAuthenticated(this.#name) && !this.#encrypts && this.#tag === null) throw this.#failed();
          const output = ops.cipherFinish(number);
          if (output === undefined) throw this.#failed();
          if (isAuthenticated(this.#name) && this.#encrypts) {
            this.#tag = Buffer.from(/** @type {ArrayBuffer} */ (ops.cipherTag(number, this.#tagLength ?? TAG)));
          }
          return this.#output(Buffer.from(output), outputEncoding, true);
        } finally {
          forget(this);
          ops.cipherClose(number);
        }
      }

      #failed() {
        if (isAuthenticated(this.#name)) return new Error("Unsupported state or unable to authenticate data");
        return this.#encrypts
          ? coded(Error, "ERR_OSSL_WRONG_FINAL_BLOCK_LENGTH", "error:1C80006B:Provider routines::wrong final block length")
          : coded(Error, "ERR_OSSL_BAD_DECRYPT", "error:1C800064:Provider routines::bad decrypt");
      }

      // Returns output as bytes or as text. The bytes of a character, or of a group of base64, may
      // come from several calls.
      #output(bytes, encoding, isLast) {
        if (encoding === undefined || encoding === null || encoding === "buffer") return bytes;
        this.#decoder ??= new StringDecoder(encoding);
        return isLast ? this.#decoder.end(bytes) : this.#decoder.write(bytes);
      }

      setAutoPadding(pads = true) {
        if (this.#isOver || !ops.cipherPad(this.#number, !!pads)) throw invalidState("setAutoPadding");
        return this;
      }

      setAAD(data, options = undefined) {
        if (options !== undefined) needObject(options, "options");
        const bytes = bytesOf(data, options?.encoding, "aadbuf");
        if (this.#isOver || !isAuthenticated(this.#name)) throw invalidState("setAAD");
        inSteps(bytes, (part) => {
          if (!ops.cipherAuthenticate(this.#number, part)) throw invalidState("setAAD");
        });
        return this;
      }

      static {
        tagOf = (cipher) => {
          if (!cipher.#isOver || cipher.#tag === null) throw invalidState("getAuthTag");
          return cipher.#tag;
        };
        expectTag = (cipher, value, encoding) => {
          const tag = bytesOf(value, encoding, "buffer");
          const length = TypedArrayPrototypeGetByteLength(tag);
          const name = cipher.#name;
          if (cipher.#isOver || cipher.#tag !== null || !isAuthenticated(name)) throw invalidState("setAuthTag");
          if (!isTagLength(name, length) || length !== (cipher.#tagLength ?? length)) throw invalidTag(length);
          if (!ops.cipherExpect(cipher.#number, tag)) throw invalidState("setAuthTag");
          cipher.#tag = tag;
        };
      }
    }
    defineHidden(Cipher.prototype, {
      _transform(chunk, encoding, done) {
        this.push(this.update(chunk, encoding));
        done();
      },
      _flush(done) {
        try {
          this.push(this.final());
        } catch (error) {
          done(error);
          return;
        }
        done();
      },
    });

    class Cipheriv extends Cipher {
      constructor(cipher, key, iv, options = undefined) {
        super(true, cipher, key, iv, options);
      }
      getAuthTag() {
        return tagOf(this);
      }
    }
    class Decipheriv extends Cipher {
      constructor(cipher, key, iv, options = undefined) {
        super(false, cipher, key, iv, options);
      }
      setAuthTag(tag, encoding = undefined) {
        expectTag(this, tag, encoding);
        return this;
      }
    }

    function getCipherInfo(nameOrNid, options = {}) {
      needObject(options, "options");
      const name = typeof nameOrNid === "number" ? NAMES.find((name) => CIPHERS[name][3] === nameOrNid) : canonical(nameOrNid);
      if (name === undefined || CIPHERS[name] === undefined) return undefined;
      const [keyLength, ivLength, blockSize, nid] = CIPHERS[name];
      if (options.keyLength !== undefined && needInteger(options.keyLength, "options.keyLength") !== keyLength) return undefined;
      const length = options.ivLength === undefined ? ivLength : needInteger(options.ivLength, "options.ivLength");
      if (length !== ivLength && !(isAuthenticated(name) && length > 0)) return undefined;
      const mode = name === "chacha20-poly1305" ? "stream" : name.slice(-3);
      return {
        mode, name: isAuthenticated(name) && mode === "gcm" ? `id-${name.replace("-", "")}` : name, nid,
        ...(mode === "stream" ? {} : { blockSize }), ...(ivLength > 0 ? { ivLength: length } : {}), keyLength,
      };
    }

    return {
      __proto__: null,
      exported: {
        Cipheriv, Decipheriv,
        createCipheriv: (cipher, key, iv, options) => new Cipheriv(cipher, key, iv, options),
        createDecipheriv: (cipher, key, iv, options) => new Decipheriv(cipher, key, iv, options),
        getCipherInfo,
        getCiphers: () => [...NAMES],
      },
    };
  });
})
