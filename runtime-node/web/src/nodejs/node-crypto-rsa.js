// node:crypto: encryption with RSA (RFC 8017 §7).
//: module
(function (internal) {
  "use strict";

  const { Error, TypeError } = internal.primordials;
  const { ops } = internal;
  const { isObject } = internal.webidl;

  // Values of `crypto.constants`.
  const PKCS1 = 1, OAEP = 4;

  internal.define("cryptoRsa", () => {
    const { badValue, coded } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { bytesOf } = internal.use("cryptoData");
    const { webName } = internal.use("cryptoHashes");
    const { handleOf, kindOf, privateKeyOf, publicKeyOf } = internal.use("cryptoKeyObjects");

    const tooLarge = () =>
      coded(Error, "ERR_OSSL_RSA_DATA_TOO_LARGE_FOR_KEY_SIZE", "error:0200006E:rsa routines::data too large for key size");

    // Returns a function such as `publicEncrypt`. `operations` has the names of the native
    // operations by padding.
    const operation = (keyOf, defaultPadding, operations, failure) => (options, data) => {
      const key = keyOf(options);
      const { encoding, oaepHash = "sha1", oaepLabel, padding = defaultPadding } = isObject(options) ? options : {};
      const bytes = bytesOf(data, encoding, "buffer");
      if (kindOf(key) !== "RSA") {
        throw coded(Error, "ERR_OSSL_EVP_OPERATION_NOT_SUPPORTED_FOR_THIS_KEYTYPE",
          "error:03000096:digital envelope routines::operation not supported for this keytype");
      }
      const name = operations[padding];
      if (name === undefined) {
        throw padding === PKCS1 ? badValue("options.padding", padding, "is RSA_PKCS1_PADDING, which is not supported for private decryption")
          : badValue("options.padding", padding);
      }
      const isOaep = padding === OAEP;
      const hash = isOaep ? webName(oaepHash) : undefined;
      if (isOaep && hash === undefined) throw coded(TypeError, "ERR_OSSL_EVP_INVALID_DIGEST", `Invalid digest: ${oaepHash}`);
      const label = isOaep && oaepLabel !== undefined ? bytesOf(oaepLabel, encoding, "key.oaepLabel") : undefined;
      const result = ops.rsaCrypt(name, handleOf(key), bytes, hash, label);
      if (result === undefined) throw failure();
      return Buffer.from(result);
    };

    return {
      publicEncrypt: operation(publicKeyOf, OAEP, { __proto__: null, [OAEP]: "encrypt-oaep", [PKCS1]: "encrypt-v1.5" }, tooLarge),
      privateDecrypt: operation(privateKeyOf, OAEP, { __proto__: null, [OAEP]: "decrypt-oaep" },
        () => coded(Error, "ERR_OSSL_RSA_OAEP_DECODING_ERROR", "error:02000079:rsa routines::oaep decoding error")),
      privateEncrypt: operation(privateKeyOf, PKCS1, { __proto__: null, [PKCS1]: "sign" }, tooLarge),
      publicDecrypt: operation(publicKeyOf, PKCS1, { __proto__: null, [PKCS1]: "recover" },
        () => coded(Error, "ERR_OSSL_RSA_PADDING_CHECK_FAILED", "error:02000072:rsa routines::padding check failed")),
    };
  });
})
