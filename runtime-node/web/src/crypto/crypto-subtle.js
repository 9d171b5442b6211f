// SubtleCrypto (Web Cryptography §14): the steps that all algorithms share, in the standard's
// order. Steps of a single algorithm are in `crypto-secrets.js` and `crypto-pairs.js`.
//
// None of the Worker's code runs between the end of an algorithm's normalization and the native
// call that copies the data. This is equivalent to the standard's copy of the data at that point.
//: late, after crypto-normalize.js crypto-pairs.js crypto-secrets.js
(function (internal) {
  "use strict";

  const { TypeError, TypedArrayPrototypeGetByteLength, Uint8Array } = internal.primordials;
  const { bufferSource, enumeration, expose, needs, unsigned } = internal.webidl;

  internal.later("subtleCrypto", ["SubtleCrypto"], () => {
    const { ops } = internal;
    const {
      algorithmOf, bytesOf, extractableOf, invalidAccess, isBufferSource, isCryptoKey, noUsagesError, notSupported, taken,
      toUsages, typeOf, usage, usageList, usagesOf,
    } = internal.cryptoKeys();
    const { identifier, normalize, supports } = internal.cryptoAlgorithms();
    const { parseJwk, toJwk, writeJwk } = internal.cryptoJwk();
    const ALGORITHMS = { __proto__: null, ...internal.cryptoSecrets(), ...internal.cryptoPairs() };

    // ---- Arguments

    const FORMATS = ["raw", "spki", "pkcs8", "jwk"];

    const toKey = (value, what) => {
      if (!isCryptoKey(value)) throw new TypeError(`${what}: the key is not a CryptoKey`);
      return value;
    };
    const toBuffer = (value, what) => {
      if (!isBufferSource(value)) throw new TypeError(`${what}: the data is neither an ArrayBuffer nor a view of one`);
      return value;
    };
    const toFormat = (value, what) => enumeration(value, FORMATS, what);

    // ---- Steps

    const expectKey = (key, algorithm, needed) => {
      const { name } = algorithmOf(key);
      if (algorithm.name !== name) throw invalidAccess(`The key is for ${name}, not for ${algorithm.name}`);
      if ((usagesOf(key) & needed) === 0) {
        const list = usageList(usagesOf(key));
        let message = `The key may not be used for '${usageList(needed)[0]}'`;
        for (let i = 0; i < list.length; i++) message += i === 0 ? `, only for '${list[i]}'` : ` and '${list[i]}'`;
        throw invalidAccess(message);
      }
    };

    const expectUsages = (key) => {
      if (typeOf(key) !== "public" && usagesOf(key) === 0) throw noUsagesError();
      return key;
    };

    // Normalizes the algorithm of `wrapKey` or `unwrapKey`: for that operation or, if that fails,
    // for `otherwise`, which is `encrypt` or `decrypt`.
    const wrapping = (operation, otherwise, algorithm) => {
      try {
        return normalize(operation, algorithm);
      } catch {
        return normalize(otherwise, algorithm);
      }
    };

    const importKey = (format, data, algorithm, extractable, usages) =>
      expectUsages(ALGORITHMS[algorithm.name].importKey(format, data, algorithm, extractable, usages));

    // Imports an unwrapped secret. For the format `raw`, algorithms with secret keys need only the
    // secret's handle.
    const importSecret = (format, handle, algorithm, extractable, usages) => {
      if (format === "raw" && supports("get key length", algorithm.name)) {
        return importKey(format, handle, algorithm, extractable, usages);
      }
      const bytes = new Uint8Array(ops.keyPart(handle, "raw"));
      return importKey(format, format === "jwk" ? parseJwk(bytes) : bytes, algorithm, extractable, usages);
    };

    const exportKey = (format, key) => {
      const { name } = algorithmOf(key);
      if (!supports("exportKey", name)) throw notSupported(`Keys of ${name} cannot be exported`);
      if (!extractableOf(key)) throw invalidAccess("The key is not extractable");
      return ALGORITHMS[name].exportKey(format, key);
    };

    // ---- The interface

    const CREATE = { __proto__: null };

    class SubtleCrypto {
      #brand = true;

      constructor(token = undefined) {
        if (token !== CREATE) throw new TypeError("Illegal constructor: use crypto.subtle");
      }

      async encrypt(algorithm, key, data) {
        this.#brand;
        needs(arguments.length, 3, "crypto.subtle.encrypt");
        const given = identifier(algorithm);
        toKey(key, "crypto.subtle.encrypt");
        toBuffer(data, "crypto.subtle.encrypt");
        const normalized = normalize("encrypt", given);
        expectKey(key, normalized, usage.ENCRYPT);
        return await ALGORITHMS[normalized.name].encrypt(normalized, key, bytesOf(data));
      }

      async decrypt(algorithm, key, data) {
        this.#brand;
        needs(arguments.length, 3, "crypto.subtle.decrypt");
        const given = identifier(algorithm);
        toKey(key, "crypto.subtle.decrypt");
        toBuffer(data, "crypto.subtle.decrypt");
        const normalized = normalize("decrypt", given);
        expectKey(key, normalized, usage.DECRYPT);
        return await ALGORITHMS[normalized.name].decrypt(normalized, key, bytesOf(data));
      }

      async sign(algorithm, key, data) {
        this.#brand;
        needs(arguments.length, 3, "crypto.subtle.sign");
        const given = identifier(algorithm);
        toKey(key, "crypto.subtle.sign");
        toBuffer(data, "crypto.subtle.sign");
        const normalized = normalize("sign", given);
        expectKey(key, normalized, usage.SIGN);
        return await ALGORITHMS[normalized.name].sign(normalized, key, bytesOf(data));
      }

      async verify(algorithm, key, signature, data) {
        this.#brand;
        needs(arguments.length, 4, "crypto.subtle.verify");
        const given = identifier(algorithm);
        toKey(key, "crypto.subtle.verify");
        toBuffer(signature, "crypto.subtle.verify");
        toBuffer(data, "crypto.subtle.verify");
        const normalized = normalize("verify", given);
        expectKey(key, normalized, usage.VERIFY);
        return await ALGORITHMS[normalized.name].verify(normalized, key, bytesOf(signature), bytesOf(data));
      }

      async digest(algorithm, data) {
        this.#brand;
        needs(arguments.length, 2, "crypto.subtle.digest");
        const given = identifier(algorithm);
        toBuffer(data, "crypto.subtle.digest");
        const { name } = normalize("digest", given);
        return await ops.cryptoDigest(name, bytesOf(data));
      }

      async generateKey(algorithm, extractable, keyUsages) {
        this.#brand;
        needs(arguments.length, 3, "crypto.subtle.generateKey");
        const given = identifier(algorithm);
        const isExtractable = !!extractable;
        const usages = toUsages(keyUsages, "crypto.subtle.generateKey");
        const normalized = normalize("generateKey", given);
        const made = await ALGORITHMS[normalized.name].generateKey(normalized, isExtractable, usages);
        expectUsages(isCryptoKey(made) ? made : made.privateKey);
        return made;
      }

      async deriveKey(algorithm, baseKey, derivedKeyType, extractable, keyUsages) {
        this.#brand;
        needs(arguments.length, 5, "crypto.subtle.deriveKey");
        const given = identifier(algorithm);
        toKey(baseKey, "crypto.subtle.deriveKey");
        const type = identifier(derivedKeyType);
        const isExtractable = !!extractable;
        const usages = toUsages(keyUsages, "crypto.subtle.deriveKey");
        const normalized = normalize("deriveBits", given);
        const toImport = normalize("importKey", type);
        const toMeasure = normalize("get key length", type);
        expectKey(baseKey, normalized, usage.DERIVE_KEY);
        const length = ALGORITHMS[toMeasure.name].keyLength(toMeasure);
        return await taken(ALGORITHMS[normalized.name].deriveBits(normalized, baseKey, length),
          (handle) => importKey("raw", handle, toImport, isExtractable, usages));
      }

      async deriveBits(algorithm, baseKey, length = null) {
        this.#brand;
        needs(arguments.length, 2, "crypto.subtle.deriveBits");
        const given = identifier(algorithm);
        toKey(baseKey, "crypto.subtle.deriveBits");
        const bits = length === null ? null : unsigned(length, 32);
        const normalized = normalize("deriveBits", given);
        expectKey(baseKey, normalized, usage.DERIVE_BITS);
        return await taken(ALGORITHMS[normalized.name].deriveBits(normalized, baseKey, bits),
          (handle) => ops.keyPart(handle, "raw"));
      }

      async importKey(format, keyData, algorithm, extractable, keyUsages) {
        this.#brand;
        needs(arguments.length, 5, "crypto.subtle.importKey");
        const form = toFormat(format, "crypto.subtle.importKey");
        const data = isBufferSource(keyData) ? keyData : toJwk(keyData);
        const given = identifier(algorithm);
        const isExtractable = !!extractable;
        const usages = toUsages(keyUsages, "crypto.subtle.importKey");
        const normalized = normalize("importKey", given);
        const isBytes = data === keyData;
        if (isBytes === (form === "jwk")) {
          throw new TypeError(`crypto.subtle.importKey: the format '${form}' does not take ${isBytes ? "bytes" : "a JsonWebKey"}`);
        }
        return importKey(form, isBytes ? bytesOf(data) : data, normalized, isExtractable, usages);
      }

      async exportKey(format, key) {
        this.#brand;
        needs(arguments.length, 2, "crypto.subtle.exportKey");
        const form = toFormat(format, "crypto.subtle.exportKey");
        return exportKey(form, toKey(key, "crypto.subtle.exportKey"));
      }

      async wrapKey(format, key, wrappingKey, wrapAlgorithm) {
        this.#brand;
        needs(arguments.length, 4, "crypto.subtle.wrapKey");
        const form = toFormat(format, "crypto.subtle.wrapKey");
        toKey(key, "crypto.subtle.wrapKey");
        toKey(wrappingKey, "crypto.subtle.wrapKey");
        const normalized = wrapping("wrapKey", "encrypt", identifier(wrapAlgorithm));
        expectKey(wrappingKey, normalized, usage.WRAP);
        const plain = exportKey(form, key);
        const bytes = form === "jwk" ? writeJwk(plain) : new Uint8Array(plain);
        const { wrapKey, encrypt } = ALGORITHMS[normalized.name];
        return await (wrapKey ?? encrypt)(normalized, wrappingKey, bytes);
      }

      async unwrapKey(format, wrappedKey, unwrappingKey, unwrapAlgorithm, unwrappedKeyAlgorithm, extractable, keyUsages) {
        this.#brand;
        needs(arguments.length, 7, "crypto.subtle.unwrapKey");
        const form = toFormat(format, "crypto.subtle.unwrapKey");
        toBuffer(wrappedKey, "crypto.subtle.unwrapKey");
        toKey(unwrappingKey, "crypto.subtle.unwrapKey");
        const given = identifier(unwrapAlgorithm);
        const type = identifier(unwrappedKeyAlgorithm);
        const isExtractable = !!extractable;
        const usages = toUsages(keyUsages, "crypto.subtle.unwrapKey");
        const normalized = wrapping("unwrapKey", "decrypt", given);
        const toImport = normalize("importKey", type);
        expectKey(unwrappingKey, normalized, usage.UNWRAP);
        const { unwrapKey, decrypt } = ALGORITHMS[normalized.name];
        return await taken((unwrapKey ?? decrypt)(normalized, unwrappingKey, bytesOf(wrappedKey), true),
          (handle) => importSecret(form, handle, toImport, isExtractable, usages));
      }

      // A non-standard method of Cloudflare Workers. Compares in a time that does not depend on the
      // contents.
      timingSafeEqual(a, b) {
        this.#brand;
        needs(arguments.length, 2, "crypto.subtle.timingSafeEqual");
        /** @type {any} */
        const one = bufferSource(toBuffer(a, "crypto.subtle.timingSafeEqual"));
        /** @type {any} */
        const other = bufferSource(toBuffer(b, "crypto.subtle.timingSafeEqual"));
        if (TypedArrayPrototypeGetByteLength(one) !== TypedArrayPrototypeGetByteLength(other)) {
          throw new TypeError("crypto.subtle.timingSafeEqual: both arguments must have the same length");
        }
        return internal.sameBytes().same(one, other);
      }
    }
    expose(SubtleCrypto);
    return { SubtleCrypto, subtle: new SubtleCrypto(CREATE) };
  });
})
