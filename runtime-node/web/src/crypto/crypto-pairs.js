// Algorithms with key pairs: RSA (Web Cryptography §20 to §22), ECDSA and ECDH (§23, §24), Ed25519
// and X25519 (§25, §26).
//
// In native code, keys have the kinds "RSA", "P-256", "P-384", "P-521", "Ed25519" and "X25519".
// This file checks the usages. Each algorithm is a record of its operations; see
// `crypto-secrets.js`.
//: late, after crypto-jwk.js
(function (internal) {
  "use strict";

  internal.later("cryptoPairs", [], () => {
    const { ops } = internal;
    const {
      algorithmOf, dataError, expectType, extractableOf, handleOf, invalidAccess, newKey, noUsagesError, notSupported, only,
      taken, typeOf, usage, usageList, usagesOf,
    } = internal.cryptoKeys();
    const { bytesOf, expectAlgorithm, expectKind, expectPurpose, numberOf, toText } = internal.cryptoJwk();
    const { ENCRYPT, DECRYPT, SIGN, VERIFY, DERIVE_KEY, DERIVE_BITS, WRAP, UNWRAP } = usage;

    const unknownFormat = (format, name) => notSupported(`There is no format '${format}' for this key of ${name}`);
    const part = (key, name) => toText(ops.keyPart(handleOf(key), name));

    // The purposes of a key pair: the JSON Web Key's `use`, and the allowed usages of its keys.
    const SIGNING = { __proto__: null, use: "sig", privateUsages: SIGN, publicUsages: VERIFY };
    const AGREEING = { __proto__: null, use: "enc", privateUsages: DERIVE_KEY | DERIVE_BITS, publicUsages: 0 };
    const ENCRYPTING = { __proto__: null, use: "enc", privateUsages: DECRYPT | UNWRAP, publicUsages: ENCRYPT | WRAP };

    // Creates the key pair of a generated private key, which contains the public key.
    const pair = (handle, algorithm, extractable, usages, { privateUsages, publicUsages }) => ({
      privateKey: newKey("private", algorithm, extractable, usages & privateUsages, handle),
      publicKey: newKey("public", algorithm, true, usages & publicUsages, ops.keyPublic(handle)),
    });

    // Returns whether a JSON Web Key is private or public, and checks the usages for that type.
    const jwkType = (jwk, usages, { privateUsages, publicUsages }, name) => {
      const type = jwk.d === undefined ? "public" : "private";
      only(usages, type === "private" ? privateUsages : publicUsages, `A ${type} key of ${name}`);
      return type;
    };

    // Exports a key in any format. `jwk(isPrivate)` returns the members that identify the key.
    const exportAs = (format, key, jwk) => {
      const { name } = algorithmOf(key);
      switch (format) {
        case "spki":
          expectType(key, "public", "'spki'");
          return ops.keyPart(handleOf(key), "spki");
        case "pkcs8":
          expectType(key, "private", "'pkcs8'");
          return ops.keyPart(handleOf(key), "pkcs8");
        case "jwk": {
          const out = jwk(typeOf(key) === "private");
          out.key_ops = usageList(usagesOf(key));
          out.ext = extractableOf(key);
          return out;
        }
        case "raw":
          if (name[0] === "R") break;
          expectType(key, "public", "'raw'");
          return ops.keyPart(handleOf(key), "raw");
      }
      throw unknownFormat(format, name);
    };

    // ---- RSA

    // The `alg` values of JSON Web Keys, by hash.
    const PKCS1 = { __proto__: null, "SHA-1": "RS1", "SHA-256": "RS256", "SHA-384": "RS384", "SHA-512": "RS512" };
    const PSS = { __proto__: null, "SHA-1": "PS1", "SHA-256": "PS256", "SHA-384": "PS384", "SHA-512": "PS512" };
    const OAEP = {
      __proto__: null, "SHA-1": "RSA-OAEP", "SHA-256": "RSA-OAEP-256", "SHA-384": "RSA-OAEP-384", "SHA-512": "RSA-OAEP-512",
    };

    const rsa = (name, names, purpose, operations) => {
      const describe = (handle, hash) => ({
        __proto__: null, name, hash, modulusLength: ops.keyBits(handle), publicExponent: ops.keyPart(handle, "e"),
      });
      const importJwk = (jwk, hash, extractable, usages) => {
        const type = jwkType(jwk, usages, purpose, name);
        expectKind(jwk, "RSA");
        expectPurpose(jwk, purpose.use, extractable, usages);
        expectAlgorithm(jwk, names[hash]);
        const n = numberOf(jwk, "n");
        const e = numberOf(jwk, "e");
        if (type === "public") return { type, handle: ops.rsaImport(n, e) };
        if (jwk.oth !== undefined) throw notSupported("RSA keys of more than two primes are not supported");
        const d = numberOf(jwk, "d");
        const p = numberOf(jwk, "p");
        const q = numberOf(jwk, "q");
        return { type, handle: ops.rsaImport(n, e, d, p, q, numberOf(jwk, "dp"), numberOf(jwk, "dq"), numberOf(jwk, "qi")) };
      };
      return {
        __proto__: null,
        generateKey({ modulusLength, publicExponent, hash }, extractable, usages) {
          only(usages, purpose.privateUsages | purpose.publicUsages, name);
          // The standard checks the usages after the key has been generated; failing earlier saves
          // that work.
          if ((usages & purpose.privateUsages) === 0) throw noUsagesError();
          return taken(ops.rsaGenerate(modulusLength, publicExponent),
            (handle) => pair(handle, describe(handle, hash), extractable, usages, purpose));
        },
        importKey(format, data, { hash }, extractable, usages) {
          let type, handle;
          if (format === "spki") {
            only(usages, purpose.publicUsages, `A public key of ${name}`);
            type = "public";
            handle = ops.keyImport("RSA", format, data);
          } else if (format === "pkcs8") {
            only(usages, purpose.privateUsages, `A private key of ${name}`);
            type = "private";
            handle = ops.keyImport("RSA", format, data);
          } else if (format === "jwk") {
            const key = importJwk(data, hash, extractable, usages);
            type = key.type;
            handle = key.handle;
          } else {
            throw unknownFormat(format, name);
          }
          return newKey(type, describe(handle, hash), extractable, usages, handle);
        },
        exportKey: (format, key) => exportAs(format, key, (isPrivate) => {
          const jwk = { kty: "RSA", alg: names[algorithmOf(key).hash], n: part(key, "n"), e: part(key, "e") };
          if (isPrivate) {
            jwk.d = part(key, "d");
            jwk.p = part(key, "p");
            jwk.q = part(key, "q");
            jwk.dp = part(key, "dp");
            jwk.dq = part(key, "dq");
            jwk.qi = part(key, "qi");
          }
          return jwk;
        }),
        ...operations,
      };
    };

    // Signs and verifies with the algorithm `name`. The hash is that of the parameters or, if they
    // have none, that of the key.
    const signer = (name) => ({
      __proto__: null,
      sign({ hash, saltLength }, key, data) {
        expectType(key, "private", `Signing with ${name}`);
        return ops.cryptoSign(name, handleOf(key), data, hash ?? algorithmOf(key).hash, saltLength);
      },
      verify({ hash, saltLength }, key, signature, data) {
        expectType(key, "public", `Verifying with ${name}`);
        return ops.cryptoVerify(name, handleOf(key), signature, data, hash ?? algorithmOf(key).hash, saltLength);
      },
    });

    const oaep = {
      __proto__: null,
      encrypt({ label }, key, data, secret = false) {
        expectType(key, "public", "Encrypting with RSA-OAEP");
        return ops.cryptoCrypt("RSA-OAEP", true, handleOf(key), data, secret, label, undefined, algorithmOf(key).hash);
      },
      decrypt({ label }, key, data, secret = false) {
        expectType(key, "private", "Decrypting with RSA-OAEP");
        return ops.cryptoCrypt("RSA-OAEP", false, handleOf(key), data, secret, label, undefined, algorithmOf(key).hash);
      },
    };

    // ---- Curves

    const isCurve = (name) => name === "P-256" || name === "P-384" || name === "P-521";
    const SIGNATURES = { __proto__: null, "P-256": "ES256", "P-384": "ES384", "P-521": "ES512" };

    // Returns a ticket for the secret that two keys share: for its first `length` bits, or for all
    // bits if `length` is null.
    const agree = ({ public: other }, key, length) => {
      const own = algorithmOf(key);
      const others = algorithmOf(other);
      expectType(key, "private", `Deriving with ${own.name}`);
      expectType(other, "public", `'public' of ${own.name}`);
      if (others.name !== own.name) throw invalidAccess(`'public' is a key of ${others.name}, but must be one of ${own.name}`);
      if (others.namedCurve !== own.namedCurve) {
        throw invalidAccess(`'public' is on the curve ${others.namedCurve}, but must be on ${own.namedCurve}`);
      }
      return ops.cryptoAgree(handleOf(key), handleOf(other), length ?? undefined);
    };

    const curve = (name, purpose, operations) => {
      const importJwk = (jwk, namedCurve, extractable, usages) => {
        const type = jwkType(jwk, usages, purpose, name);
        expectKind(jwk, "EC");
        expectPurpose(jwk, purpose.use, extractable, usages);
        if (jwk.crv !== namedCurve) throw dataError(`'crv' of the JSON Web Key is '${jwk.crv}', but must be '${namedCurve}'`);
        if (name === "ECDSA") expectAlgorithm(jwk, SIGNATURES[namedCurve]);
        const d = type === "private" ? bytesOf(jwk, "d") : undefined;
        return { type, handle: ops.curveImport(namedCurve, bytesOf(jwk, "x"), bytesOf(jwk, "y"), d) };
      };
      return {
        __proto__: null,
        generateKey({ namedCurve }, extractable, usages) {
          only(usages, purpose.privateUsages | purpose.publicUsages, name);
          if (!isCurve(namedCurve)) throw notSupported(`The curve '${namedCurve}' is not supported; use P-256, P-384 or P-521`);
          return pair(ops.curveGenerate(namedCurve), { __proto__: null, name, namedCurve }, extractable, usages, purpose);
        },
        importKey(format, data, { namedCurve }, extractable, usages) {
          let type, handle;
          if (format === "pkcs8") only(usages, purpose.privateUsages, `A private key of ${name}`);
          else if (format === "spki" || format === "raw") only(usages, purpose.publicUsages, `A public key of ${name}`);
          else if (format !== "jwk") throw unknownFormat(format, name);
          if (!isCurve(namedCurve)) throw notSupported(`The curve '${namedCurve}' is not supported; use P-256, P-384 or P-521`);
          if (format === "jwk") {
            const key = importJwk(data, namedCurve, extractable, usages);
            type = key.type;
            handle = key.handle;
          } else {
            type = format === "pkcs8" ? "private" : "public";
            handle = ops.keyImport(namedCurve, format, data);
          }
          return newKey(type, { __proto__: null, name, namedCurve }, extractable, usages, handle);
        },
        exportKey: (format, key) => exportAs(format, key, (isPrivate) => {
          const jwk = { kty: "EC", crv: algorithmOf(key).namedCurve, x: part(key, "x"), y: part(key, "y") };
          if (isPrivate) jwk.d = part(key, "d");
          return jwk;
        }),
        ...operations,
      };
    };

    // Algorithms with a curve of their own (RFC 8037).
    const ownCurve = (name, purpose, operations) => {
      const importJwk = (jwk, extractable, usages) => {
        const type = jwkType(jwk, usages, purpose, name);
        expectKind(jwk, "OKP");
        if (jwk.crv !== name) throw dataError(`'crv' of the JSON Web Key is '${jwk.crv}', but must be '${name}'`);
        if (name === "Ed25519" && jwk.alg !== "EdDSA") expectAlgorithm(jwk, name);
        expectPurpose(jwk, purpose.use, extractable, usages);
        const d = type === "private" ? bytesOf(jwk, "d") : undefined;
        return { type, handle: ops.curveImport(name, bytesOf(jwk, "x"), undefined, d) };
      };
      return {
        __proto__: null,
        generateKey(_, extractable, usages) {
          only(usages, purpose.privateUsages | purpose.publicUsages, name);
          return pair(ops.curveGenerate(name), { __proto__: null, name }, extractable, usages, purpose);
        },
        importKey(format, data, _, extractable, usages) {
          let type, handle;
          if (format === "jwk") {
            const key = importJwk(data, extractable, usages);
            type = key.type;
            handle = key.handle;
          } else {
            if (format === "pkcs8") only(usages, purpose.privateUsages, `A private key of ${name}`);
            else if (format === "spki" || format === "raw") only(usages, purpose.publicUsages, `A public key of ${name}`);
            else throw unknownFormat(format, name);
            type = format === "pkcs8" ? "private" : "public";
            handle = ops.keyImport(name, format, data);
          }
          return newKey(type, { __proto__: null, name }, extractable, usages, handle);
        },
        exportKey: (format, key) => exportAs(format, key, (isPrivate) => {
          const jwk = { kty: "OKP", crv: name, x: part(key, "raw") };
          if (isPrivate) jwk.d = part(key, "d");
          return jwk;
        }),
        ...operations,
      };
    };

    const agreement = { __proto__: null, deriveBits: agree };
    return {
      __proto__: null,
      "RSASSA-PKCS1-v1_5": rsa("RSASSA-PKCS1-v1_5", PKCS1, SIGNING, signer("RSASSA-PKCS1-v1_5")),
      "RSA-PSS": rsa("RSA-PSS", PSS, SIGNING, signer("RSA-PSS")),
      "RSA-OAEP": rsa("RSA-OAEP", OAEP, ENCRYPTING, oaep),
      ECDSA: curve("ECDSA", SIGNING, signer("ECDSA")),
      ECDH: curve("ECDH", AGREEING, agreement),
      Ed25519: ownCurve("Ed25519", SIGNING, signer("Ed25519")),
      X25519: ownCurve("X25519", AGREEING, agreement),
    };
  });
})
