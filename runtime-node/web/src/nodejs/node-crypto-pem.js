// node:crypto: keys in PEM (RFC 7468) and DER, including encrypted ones.
//: module
(function (internal) {
  "use strict";

  const { Error, TypeError } = internal.primordials;
  const { ops } = internal;

  // The format of the data under each label of PEM.
  const FORMATS = {
    __proto__: null,
    "PUBLIC KEY": "spki", "RSA PUBLIC KEY": "pkcs1-public", "CERTIFICATE": "certificate", "X509 CERTIFICATE": "certificate",
    "PRIVATE KEY": "pkcs8", "RSA PRIVATE KEY": "pkcs1-private", "EC PRIVATE KEY": "sec1",
    "ENCRYPTED PRIVATE KEY": "encrypted",
  };
  const LABELS = {
    __proto__: null,
    "spki": "PUBLIC KEY", "pkcs1-public": "RSA PUBLIC KEY", "pkcs8": "PRIVATE KEY", "pkcs1-private": "RSA PRIVATE KEY",
    "sec1": "EC PRIVATE KEY", "encrypted": "ENCRYPTED PRIVATE KEY",
  };
  const BEGIN = "-----BEGIN ", END = "-----END ", DASHES = "-----";
  // The maximum length of a text, in characters, and the maximum number of its blocks that are
  // examined.
  const LONGEST = 2 ** 18;
  const MAX_BLOCKS = 16;
  // The number of PBKDF2 iterations that derive the encryption key of an exported key.
  const ITERATIONS = 10_000;
  // The supported ciphers, with the lengths of their keys in bytes.
  const CIPHERS = { __proto__: null, "aes-128-cbc": 16, "aes-192-cbc": 24, "aes-256-cbc": 32 };

  internal.define("cryptoPem", () => {
    const { badValue, coded, needString } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { bytesOf } = internal.use("cryptoData");
    const { handleOf, kindOf, make, typeOf } = internal.use("cryptoKeyObjects");

    const unsupported = (why) => coded(Error, "ERR_OSSL_UNSUPPORTED", `error:1E08010C:DECODER routines::unsupported: ${why}`);
    const incompatible = (why) => coded(Error, "ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS", why);
    const isPrivate = (format) => format === "pkcs8" || format === "pkcs1-private" || format === "sec1" || format === "encrypted";
    const suits = (format, wanted) => wanted === "any" || (wanted === "private" && isPrivate(format));

    // ---- Encryption

    const passphraseOf = ({ passphrase, encoding }) => {
      if (passphrase === undefined || passphrase === null) {
        throw coded(TypeError, "ERR_MISSING_PASSPHRASE", "Passphrase required for encrypted key");
      }
      return bytesOf(passphrase, encoding, "key.passphrase");
    };

    function decipher(cipher, key, iv, content) {
      const { createDecipheriv } = internal.use("cryptoCiphers").exported;
      try {
        const stream = createDecipheriv(cipher, key, iv);
        return Buffer.concat([stream.update(content), stream.final()]);
      } catch {
        throw coded(Error, "ERR_OSSL_BAD_DECRYPT", "error:1C800064:Provider routines::bad decrypt");
      }
    }
    function decrypt(der, options) {
      const { cipher, content, derivation, iterations, iv, p, r, salt } = ops.encryptedRead(der);
      const passphrase = passphraseOf(options);
      const { pbkdf2Sync, scryptSync } = internal.use("cryptoDerivation");
      const key = derivation === "scrypt"
        ? scryptSync(passphrase, salt, CIPHERS[cipher], { N: iterations, r, p, maxmem: 2 ** 31 })
        : pbkdf2Sync(passphrase, salt, iterations, CIPHERS[cipher], derivation);
      return decipher(cipher, key, Buffer.from(iv), Buffer.from(content));
    }
    // Decrypts the older format of OpenSSL (RFC 1421 §4.6.1), which derives the key with MD5.
    function decryptOld(info, content, options) {
      const [name, hex] = info.split(",");
      const cipher = name.trim().toLowerCase();
      const iv = Buffer.from((hex ?? "").trim(), "hex");
      if (CIPHERS[cipher] === undefined || iv.length !== 16) throw unsupported(`a key encrypted with ${cipher}`);
      const secret = Buffer.concat([passphraseOf(options), iv.subarray(0, 8)]);
      const { digestOf } = internal.use("cryptoHashes");
      let key = digestOf("md5", secret);
      while (key.length < CIPHERS[cipher]) key = Buffer.concat([key, digestOf("md5", Buffer.concat([key.subarray(-16), secret]))]);
      return decipher(cipher, key.subarray(0, CIPHERS[cipher]), iv, content);
    }
    function encrypt(der, { cipher, passphrase, encoding }) {
      const name = needString(cipher, "options.cipher").toLowerCase();
      if (CIPHERS[name] === undefined) {
        throw coded(Error, "ERR_CRYPTO_UNKNOWN_CIPHER", `A key cannot be encrypted with ${name}; use aes-128-cbc, aes-192-cbc or aes-256-cbc`);
      }
      const { randomBytes } = internal.use("cryptoRandom");
      const { pbkdf2Sync } = internal.use("cryptoDerivation");
      const salt = randomBytes(16), iv = randomBytes(16);
      const key = pbkdf2Sync(passphraseOf({ passphrase, encoding }), salt, ITERATIONS, CIPHERS[name], "sha256");
      const stream = internal.use("cryptoCiphers").exported.createCipheriv(name, key, iv);
      const content = Buffer.concat([stream.update(der), stream.final()]);
      return Buffer.from(ops.encryptedWrite(name, iv, salt, ITERATIONS, content));
    }

    // ---- Reading

    // Returns the key that DER encodes.
    function decode(format, der, options) {
      if (format === "encrypted") return decode("pkcs8", decrypt(der, options), options);
      return make(isPrivate(format) ? "private" : "public", ops.keyRead(format, der));
    }

    // Returns the content of a block, decrypted if the block's headers declare it encrypted.
    function contentOf(body, options) {
      const encrypted = body.indexOf("DEK-Info:");
      if (encrypted === -1) return Buffer.from(body, "base64");
      const end = body.indexOf("\n", encrypted);
      return decryptOld(body.slice(encrypted + 9, end), Buffer.from(body.slice(end), "base64"), options);
    }

    function readPem(bytes, options, wanted) {
      if (bytes.length > LONGEST) throw unsupported("the text is too long");
      const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
      let at = 0;
      for (let count = 0; count < MAX_BLOCKS; count++) {
        const begin = text.indexOf(BEGIN, at);
        if (begin === -1) break;
        const close = text.indexOf(DASHES, begin + BEGIN.length);
        const label = text.slice(begin + BEGIN.length, close);
        const end = text.indexOf(`${END}${label}${DASHES}`, close);
        if (close === -1 || end === -1) break;
        const format = FORMATS[label];
        if (format !== undefined && suits(format, wanted)) {
          return decode(format, contentOf(text.slice(close + DASHES.length, end), options), options);
        }
        at = end + END.length;
      }
      throw unsupported(`the text has no ${wanted === "private" ? "private " : ""}key in PEM`);
    }

    function readDer(bytes, options, wanted) {
      const { type } = options;
      if (type === "spki" && wanted === "any") return decode("spki", bytes, options);
      if (type === "pkcs8") return decode(options.passphrase === undefined ? "pkcs8" : "encrypted", bytes, options);
      if (type === "sec1") return decode("sec1", bytes, options);
      if (type === "pkcs1") {
        if (wanted === "private") return decode("pkcs1-private", bytes, options);
        try {
          return decode("pkcs1-public", bytes, options);
        } catch {
          return decode("pkcs1-private", bytes, options);
        }
      }
      throw badValue("key.type", type);
    }

    function read(bytes, options, wanted) {
      const { format } = options;
      if (format === "der") return readDer(bytes, options, wanted);
      if (format !== undefined && format !== "pem") throw badValue("key.format", format);
      return readPem(bytes, options, wanted);
    }

    // ---- Writing

    function formatOf(key, type) {
      const isPublic = typeOf(key) === "public";
      const isRsa = kindOf(key) === "RSA";
      if (type === "pkcs1") {
        if (!isRsa) throw incompatible("The selected key encoding pkcs1 can only be used for RSA keys.");
        return isPublic ? "pkcs1-public" : "pkcs1-private";
      }
      if (type === "spki" && isPublic) return "spki";
      if (type === "pkcs8" && !isPublic) return "pkcs8";
      if (type === "sec1" && !isPublic) {
        if (isRsa || kindOf(key)[0] !== "P") throw incompatible("The selected key encoding sec1 can only be used for EC keys.");
        return "sec1";
      }
      throw badValue("options.type", type);
    }

    function toPem(label, der) {
      const text = der.toString("base64");
      let lines = `${BEGIN}${label}${DASHES}\n`;
      for (let at = 0; at < text.length; at += 64) lines += `${text.slice(at, at + 64)}\n`;
      return `${lines}${END}${label}${DASHES}\n`;
    }

    function write(key, options) {
      const { format, type, cipher, passphrase } = options;
      if (format !== "pem" && format !== "der") throw badValue("options.format", format);
      let kind = formatOf(key, type);
      let der = Buffer.from(ops.keyPart(handleOf(key), kind));
      if (typeOf(key) === "private" && (cipher !== undefined && cipher !== null || passphrase !== undefined && passphrase !== null)) {
        if (kind !== "pkcs8") throw incompatible("Only keys of the type pkcs8 are exported encrypted.");
        der = encrypt(der, options);
        kind = "encrypted";
      }
      return format === "der" ? der : toPem(LABELS[kind], der);
    }

    return { __proto__: null, read, write };
  });
})
