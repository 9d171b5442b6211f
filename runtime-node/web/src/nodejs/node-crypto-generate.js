// node:crypto: the generation of keys. `generateKeyPair` generates RSA keys on another thread.
//: module
(function (internal) {
  "use strict";

  const { ObjectDefineProperty, Promise, SymbolFor, TypeError, Uint8Array } = internal.primordials;
  const { ops } = internal;

  const CURVES = {
    __proto__: null,
    "prime256v1": "P-256", "secp256r1": "P-256", "p-256": "P-256", "secp384r1": "P-384", "p-384": "P-384",
    "secp521r1": "P-521", "p-521": "P-521",
  };
  // The curves whose keys have a type of their own.
  const OWN_CURVES = { __proto__: null, ed25519: "Ed25519", x25519: "X25519" };
  // The bounds of a generated modulus's length, and the step between lengths, in bits.
  const SHORTEST = 2048, LONGEST = 4096, STEP = 128;

  internal.define("cryptoGeneration", () => {
    const { badValue, coded, needFunction, needInteger, needObject, needString, outOfRange, refused } = internal.node;
    const { callLater, settle } = internal.use("cryptoData");
    const { converted, make, makePublic } = internal.use("cryptoKeyObjects");

    // Returns the curve with this name in OpenSSL or Web Crypto.
    function curveOf(name, argument) {
      const curve = CURVES[needString(name, argument).toLowerCase()];
      if (curve === undefined) throw coded(TypeError, "ERR_CRYPTO_INVALID_CURVE", `Invalid EC curve name: ${name}`);
      return curve;
    }

    // ---- Secrets

    function secretBits(type, options) {
      needString(type, "type");
      needObject(options, "options");
      const { length } = options;
      if (type === "hmac") return needInteger(length, "options.length", 8, 2 ** 23);
      if (type !== "aes") throw badValue("type", type, "must be a supported key type");
      if (length !== 128 && length !== 192 && length !== 256) throw badValue("options.length", length, "must be one of: 128, 192, 256");
      return length;
    }
    const generateKeySync = (type, options) => {
      const bits = secretBits(type, options);
      return make("secret", ops.secretGenerate(bits - bits % 8));
    };
    const generateKey = (type, options, callback) => {
      needFunction(callback, "callback");
      const key = generateKeySync(type, options);
      callLater(callback, null, key);
    };

    // ---- Pairs

    // Returns the exponent, big-endian.
    const exponentBytes = (exponent) => new Uint8Array([exponent >>> 24, exponent >>> 16, exponent >>> 8, exponent]);

    function rsaArguments(options) {
      needObject(options, "options");
      const { modulusLength, publicExponent = 65_537 } = options;
      needInteger(modulusLength, "options.modulusLength", 0, 2 ** 32 - 1);
      needInteger(publicExponent, "options.publicExponent", 0, 2 ** 32 - 1);
      if (modulusLength < SHORTEST || modulusLength > LONGEST || modulusLength % STEP !== 0) {
        throw outOfRange("options.modulusLength", `>= ${SHORTEST} && <= ${LONGEST}, and a multiple of ${STEP}`, modulusLength);
      }
      if (publicExponent !== 3 && publicExponent !== 65_537) throw outOfRange("options.publicExponent", "3 or 65537", publicExponent);
      return { __proto__: null, modulusLength, exponent: exponentBytes(publicExponent) };
    }

    const curveHandle = (type, options) => {
      if (type === "ec") {
        needObject(options, "options");
        return ops.curveGenerate(curveOf(options.namedCurve, "options.namedCurve"));
      }
      const curve = OWN_CURVES[type];
      if (curve !== undefined) return ops.curveGenerate(curve);
      switch (type) {
        case "rsa-pss": case "dsa": case "dh": case "ed448": case "x448":
          throw refused(`A key pair of the type ${type}`, "use rsa, ec, ed25519 or x25519");
      }
      throw badValue("type", type, "must be a supported key type");
    };

    // Returns both keys of a private key's handle, in the encodings that the options request.
    const pairOf = (handle, options) => {
      const encoded = (key, encoding) => (encoding === undefined ? key : key.export(encoding));
      return {
        publicKey: encoded(makePublic(handle), options?.publicKeyEncoding),
        privateKey: encoded(make("private", handle), options?.privateKeyEncoding),
      };
    };
    const checkEncodings = (options) => {
      for (const name of ["publicKeyEncoding", "privateKeyEncoding"]) {
        const encoding = options?.[name];
        if (encoding !== undefined) needObject(encoding, `options.${name}`);
      }
    };

    function generateKeyPairSync(type, options = undefined) {
      needString(type, "type");
      checkEncodings(options);
      if (type !== "rsa") return pairOf(curveHandle(type, options), options);
      const { exponent, modulusLength } = rsaArguments(options);
      return pairOf(converted(() => ops.rsaGenerateHere(modulusLength, exponent)), options);
    }

    function generateKeyPair(type, options, callback = undefined) {
      if (callback === undefined && typeof options === "function") {
        callback = options;
        options = undefined;
      }
      needFunction(callback, "callback");
      needString(type, "type");
      checkEncodings(options);
      const done = (error, pair) => (error ? callback(error) : callback(null, pair.publicKey, pair.privateKey));
      if (type !== "rsa") {
        const pair = pairOf(curveHandle(type, options), options);
        callLater(done, null, pair);
        return;
      }
      const { exponent, modulusLength } = rsaArguments(options);
      const { taken } = internal.cryptoKeys();
      settle(taken(ops.rsaGenerate(modulusLength, exponent), (handle) => pairOf(handle, options)), done, (pair) => pair);
    }
    ObjectDefineProperty(generateKeyPair, SymbolFor("nodejs.util.promisify.custom"), {
      __proto__: null,
      value: (type, options) => new Promise((resolve, reject) => {
        generateKeyPair(type, options, (error, publicKey, privateKey) => (error ? reject(error) : resolve({ publicKey, privateKey })));
      }),
      configurable: true,
    });

    return {
      __proto__: null, curveOf,
      exported: { generateKey, generateKeyPair, generateKeyPairSync, generateKeySync },
    };
  });
})
