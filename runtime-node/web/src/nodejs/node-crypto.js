// node:crypto: the exports of the module, which the other files `node-crypto-*.js` implement.
//: module
(function (internal) {
  "use strict";

  const { RangeError, TypedArrayPrototypeGetByteLength } = internal.primordials;
  const { bufferSource } = internal.webidl;

  const CONSTANTS = {
    RSA_PKCS1_PADDING: 1, RSA_NO_PADDING: 3, RSA_PKCS1_OAEP_PADDING: 4, RSA_X931_PADDING: 5, RSA_PKCS1_PSS_PADDING: 6,
    RSA_PSS_SALTLEN_DIGEST: -1, RSA_PSS_SALTLEN_MAX_SIGN: -2, RSA_PSS_SALTLEN_AUTO: -2,
    POINT_CONVERSION_COMPRESSED: 2, POINT_CONVERSION_UNCOMPRESSED: 4, POINT_CONVERSION_HYBRID: 6,
  };

  internal.define("crypto", () => {
    const { coded, invalid, refused } = internal.node;
    const { crypto: webcrypto } = internal.crypto();

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

    // ---- Functions and classes that are not supported, which packages refer to without using them

    const absent = (name, why) => ({
      [name](..._arguments) {
        throw refused(`crypto.${name}`, why);
      },
    })[name];
    const absentClass = (name, why) => ({
      [name]: class {
        constructor(..._arguments) {
          throw refused(`crypto.${name}`, why);
        }
      },
    })[name];
    const FINITE = "Diffie-Hellman is supported only on elliptic curves; use createECDH or diffieHellman";
    const PRIMES = "the time to find or check a prime has no bound";
    const CERTIFICATES = "pass a certificate to createPublicKey to get its public key";

    return {
      ...internal.use("cryptoHashes").exported,
      ...internal.use("cryptoDerivation"),
      ...internal.use("cryptoRandom"),
      ...internal.use("cryptoKeyObjects").exported,
      ...internal.use("cryptoGeneration").exported,
      ...internal.use("cryptoSignatures"),
      ...internal.use("cryptoCiphers").exported,
      ...internal.use("cryptoRsa"),
      ...internal.use("cryptoAgreement"),
      DiffieHellman: absentClass("DiffieHellman", FINITE),
      DiffieHellmanGroup: absentClass("DiffieHellmanGroup", FINITE),
      X509Certificate: absentClass("X509Certificate", CERTIFICATES),
      checkPrime: absent("checkPrime", PRIMES),
      checkPrimeSync: absent("checkPrimeSync", PRIMES),
      constants: { ...CONSTANTS },
      createDiffieHellman: absent("createDiffieHellman", FINITE),
      createDiffieHellmanGroup: absent("createDiffieHellmanGroup", FINITE),
      generatePrime: absent("generatePrime", PRIMES),
      generatePrimeSync: absent("generatePrimeSync", PRIMES),
      getDiffieHellman: absent("getDiffieHellman", FINITE),
      getFips: () => 0,
      subtle: webcrypto.subtle,
      timingSafeEqual, webcrypto,
    };
  });
})
