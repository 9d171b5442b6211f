// Checks of AES (Web Cryptography §27 to §30), with the examples of NIST SP 800-38A, of the
// specification of GCM, and of RFC 3394.
import { about, check, equal, rejects } from "../check.js";
export { default } from "../check.js";

const { subtle } = crypto;
const text = (string) => new TextEncoder().encode(string);
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

const CIPHERS = ["AES-CBC", "AES-CTR", "AES-GCM"];
const PARAMETERS = {
  "AES-CBC": { iv: new Uint8Array(16) },
  "AES-CTR": { counter: new Uint8Array(16), length: 64 },
  "AES-GCM": { iv: new Uint8Array(12) },
};
const importAes = (name, key, usages = ["encrypt", "decrypt"]) => subtle.importKey("raw", bytes(key), name, true, usages);

// SP 800-38A §F: four blocks, which are the same for all modes.
const PLAIN = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51" +
  "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
const KEYS = {
  128: "2b7e151628aed2a6abf7158809cf4f3c",
  192: "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
  256: "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
};
const CBC = {
  128: "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2" +
    "73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
  192: "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a" +
    "571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd",
  256: "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d" +
    "39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
};
const CTR = {
  128: "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff" +
    "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
  192: "1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e94" +
    "1e36b26bd1ebc670d1bd1d665620abf74f78a7f6d29809585a97daec58c6b050",
  256: "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5" +
    "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
};

about("SubtleCrypto: AES");

check("AES-CBC matches the standard, followed by a block of padding", async () => {
  const algorithm = { name: "AES-CBC", iv: bytes("000102030405060708090a0b0c0d0e0f") };
  for (const length of [128, 192, 256]) {
    const key = await importAes("AES-CBC", KEYS[length]);
    const cipher = await subtle.encrypt(algorithm, key, bytes(PLAIN));
    equal([hex(cipher).slice(0, 128), cipher.byteLength], [CBC[length], 80], `${length}`);
    equal(hex(await subtle.decrypt(algorithm, key, cipher)), PLAIN);
  }
});

check("AES-CTR matches the standard", async () => {
  const algorithm = { name: "AES-CTR", counter: bytes("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"), length: 128 };
  for (const length of [128, 192, 256]) {
    const key = await importAes("AES-CTR", KEYS[length]);
    const cipher = await subtle.encrypt(algorithm, key, bytes(PLAIN));
    equal(hex(cipher), CTR[length], `${length}`);
    equal(hex(await subtle.decrypt(algorithm, key, cipher)), PLAIN);
  }
});

check("the counter of AES-CTR wraps around within its length", async () => {
  const key = await importAes("AES-CTR", KEYS[128]);
  const zeros = new Uint8Array(16);
  const block = async (counter) => hex(await subtle.encrypt({ name: "AES-CTR", counter: bytes(counter), length: 128 }, key, zeros));
  const all = "ffffffffffffffffffffffffffffffff";
  for (const [length, after] of [
    [1, "fffffffffffffffffffffffffffffffe"], [7, "ffffffffffffffffffffffffffffff80"], [8, "ffffffffffffffffffffffffffffff00"],
    [64, "ffffffffffffffff0000000000000000"], [127, "80000000000000000000000000000000"], [128, "00000000000000000000000000000000"],
  ]) {
    const both = hex(await subtle.encrypt({ name: "AES-CTR", counter: bytes(all), length }, key, new Uint8Array(32)));
    equal(both, (await block(all)) + (await block(after)), `${length} bits`);
  }
});

check("AES-CTR rejects data for which the counter would repeat", async () => {
  const key = await importAes("AES-CTR", KEYS[128]);
  const algorithm = { name: "AES-CTR", counter: new Uint8Array(16), length: 2 };
  equal((await subtle.encrypt(algorithm, key, new Uint8Array(64))).byteLength, 64);
  await rejects("OperationError", subtle.encrypt(algorithm, key, new Uint8Array(65)));
});

// Test cases 1, 2, 4 to 6, 10 and 16 of the specification of GCM.
const GCM = [
  { key: "00".repeat(16), iv: "00".repeat(12), plain: "", aad: "", cipher: "", tag: "58e2fccefa7e3061367f1d57a4e7455a" },
  {
    key: "00".repeat(16), iv: "00".repeat(12), plain: "00".repeat(16), aad: "", cipher: "0388dace60b6a392f328c2b971b2fe78",
    tag: "ab6e47d42cec13bdf53a67b21257bddf",
  },
  {
    key: "feffe9928665731c6d6a8f9467308308", iv: "cafebabefacedbaddecaf888",
    plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    aad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
    cipher: "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
    tag: "5bc94fbc3221a5db94fae95ae7121a47",
  },
  {
    key: "feffe9928665731c6d6a8f9467308308", iv: "cafebabefacedbad",
    plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    aad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
    cipher: "61353b4c2806934a777ff51fa22a4755699b2a714fcdc6f83766e5f97b6c742373806900e49f24b22b097544d4896b424989b5e1ebac0f07c23f4598",
    tag: "3612d2e79e3b0785561be14aaca2fccb",
  },
  {
    key: "feffe9928665731c6d6a8f9467308308",
    iv: "9313225df88406e555909c5aff5269aa6a7a9538534f7da1e4c303d2a318a728c3c0c95156809539fcf0e2429a6b525416aedbf5a0de6a57a637b39b",
    plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    aad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
    cipher: "8ce24998625615b603a033aca13fb894be9112a5c3a211a8ba262a3cca7e2ca701e4a9a4fba43c90ccdcb281d48c7c6fd62875d2aca417034c34aee5",
    tag: "619cc5aefffe0bfa462af43c1699d050",
  },
  {
    key: "feffe9928665731c6d6a8f9467308308feffe9928665731c", iv: "cafebabefacedbaddecaf888",
    plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    aad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
    cipher: "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710",
    tag: "2519498e80f1478f37ba55bd6d27618c",
  },
  {
    key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", iv: "cafebabefacedbaddecaf888",
    plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    aad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
    cipher: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
    tag: "76fc6ece0f4e1768cddf8853bb2d551b",
  },
];

check("AES-GCM matches the standard, with an iv of any length", async () => {
  for (const { key, iv, plain, aad, cipher, tag } of GCM) {
    const imported = await importAes("AES-GCM", key);
    const algorithm = { name: "AES-GCM", iv: bytes(iv), additionalData: bytes(aad) };
    const encrypted = await subtle.encrypt(algorithm, imported, bytes(plain));
    equal(hex(encrypted), cipher + tag);
    equal(hex(await subtle.decrypt(algorithm, imported, encrypted)), plain);
  }
});

check("a short tag of AES-GCM is a prefix of the full tag", async () => {
  const { key, iv, plain, aad, cipher, tag } = GCM[2];
  const imported = await importAes("AES-GCM", key);
  for (const tagLength of [32, 64, 96, 104, 112, 120, 128]) {
    const algorithm = { name: "AES-GCM", iv: bytes(iv), additionalData: bytes(aad), tagLength };
    const encrypted = await subtle.encrypt(algorithm, imported, bytes(plain));
    equal(hex(encrypted), cipher + tag.slice(0, tagLength / 4), `${tagLength}`);
    equal(hex(await subtle.decrypt(algorithm, imported, encrypted)), plain);
  }
  for (const tagLength of [0, 8, 31, 127, 129, 255]) {
    const algorithm = { name: "AES-GCM", iv: bytes(iv), tagLength };
    await rejects("OperationError", subtle.encrypt(algorithm, imported, bytes(plain)));
    await rejects("OperationError", subtle.decrypt(algorithm, imported, bytes(plain)));
  }
  await rejects("TypeError", subtle.encrypt({ name: "AES-GCM", iv: bytes(iv), tagLength: 256 }, imported, bytes(plain)));
});

check("data that was changed, truncated or encrypted with another key is not decrypted", async () => {
  const key = await importAes("AES-GCM", KEYS[128]);
  const other = await importAes("AES-GCM", KEYS[256]);
  const algorithm = { name: "AES-GCM", iv: new Uint8Array(12), additionalData: text("about") };
  const encrypted = new Uint8Array(await subtle.encrypt(algorithm, key, text("secret")));
  const changed = encrypted.slice();
  changed[0] ^= 1;
  for (const [parameters, decryptionKey, data] of [
    [algorithm, key, changed], [algorithm, key, encrypted.slice(1)], [algorithm, key, encrypted.slice(0, 15)], [algorithm, key, new Uint8Array(0)],
    [algorithm, other, encrypted], [{ ...algorithm, additionalData: text("About") }, key, encrypted],
    [{ ...algorithm, iv: new Uint8Array(13) }, key, encrypted], [{ ...algorithm, tagLength: 120 }, key, encrypted],
  ]) await rejects("OperationError", subtle.decrypt(parameters, decryptionKey, data));
});

check("AES-CBC rejects data without valid padding", async () => {
  const key = await importAes("AES-CBC", KEYS[128]);
  const algorithm = { name: "AES-CBC", iv: new Uint8Array(16) };
  for (const length of [0, 1, 15, 17]) await rejects("OperationError", subtle.decrypt(algorithm, key, new Uint8Array(length)));
  const encrypted = await subtle.encrypt({ ...algorithm, iv: new Uint8Array(16).fill(0x20) }, key, new Uint8Array(16));
  await rejects("OperationError", subtle.decrypt(algorithm, key, encrypted.slice(0, 16)));
  equal((await subtle.encrypt(algorithm, key, new Uint8Array(0))).byteLength, 16);
});

check("ivs and counters of other lengths are refused", async () => {
  const cbc = await importAes("AES-CBC", KEYS[128]);
  const ctr = await importAes("AES-CTR", KEYS[128]);
  const gcm = await importAes("AES-GCM", KEYS[128]);
  for (const length of [0, 15, 17]) {
    await rejects("OperationError", subtle.encrypt({ name: "AES-CBC", iv: new Uint8Array(length) }, cbc, text("x")), "16 bytes");
    await rejects("OperationError", subtle.encrypt({ name: "AES-CTR", counter: new Uint8Array(length), length: 8 }, ctr, text("x")));
  }
  for (const length of [0, 129, 255]) {
    await rejects("OperationError", subtle.encrypt({ name: "AES-CTR", counter: new Uint8Array(16), length }, ctr, text("x")));
  }
  await rejects("OperationError", subtle.encrypt({ name: "AES-GCM", iv: new Uint8Array(0) }, gcm, text("x")));
});

check("parameters that are missing or of another type are TypeErrors", async () => {
  const cbc = await importAes("AES-CBC", KEYS[128]);
  const ctr = await importAes("AES-CTR", KEYS[128]);
  const gcm = await importAes("AES-GCM", KEYS[128]);
  for (const [algorithm, key] of [
    ["AES-CBC", cbc], [{ name: "AES-CBC" }, cbc], [{ name: "AES-CBC", iv: "0123456789abcdef" }, cbc], [{ name: "AES-GCM" }, gcm],
    [{ name: "AES-GCM", iv: new Uint8Array(12), additionalData: "x" }, gcm], [{ name: "AES-GCM", iv: new Uint8Array(12), tagLength: -1 }, gcm],
    [{ name: "AES-GCM", iv: new Uint8Array(12), tagLength: NaN }, gcm], [{ name: "AES-CTR", counter: new Uint8Array(16) }, ctr],
    [{ name: "AES-CTR", length: 8 }, ctr], [{ name: "AES-CTR", counter: new Uint8Array(16), length: 256 }, ctr],
  ]) await rejects("TypeError", subtle.encrypt(algorithm, key, text("x")));
});

// RFC 3394 §4.
const WRAPS = [
  [128, "00112233445566778899aabbccddeeff", "1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5"],
  [192, "00112233445566778899aabbccddeeff", "96778b25ae6ca435f92b5b97c050aed2468ab8a17ad84e5d"],
  [256, "00112233445566778899aabbccddeeff", "64e8c3f9ce0f5ba263e9777905818a2a93c8191e7d6e8ae7"],
  [192, "00112233445566778899aabbccddeeff0001020304050607", "031d33264e15d33268f24ec260743edce1c6c7ddee725a936ba814915c6762d2"],
  [256, "00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f", "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21"],
];

check("AES-KW matches RFC 3394", async () => {
  const kek = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
  for (const [length, key, wrapped] of WRAPS) {
    const wrapping = await importAes("AES-KW", kek.slice(0, length / 4), ["wrapKey", "unwrapKey"]);
    const plain = await importAes("AES-GCM", key);
    equal(hex(await subtle.wrapKey("raw", plain, wrapping, "AES-KW")), wrapped);
    const back = await subtle.unwrapKey("raw", bytes(wrapped), wrapping, "AES-KW", "AES-GCM", true, ["encrypt"]);
    equal(hex(await subtle.exportKey("raw", back)), key);
    const wrong = bytes(wrapped);
    wrong[5] ^= 1;
    await rejects("OperationError", subtle.unwrapKey("raw", wrong, wrapping, "AES-KW", "AES-GCM", true, ["encrypt"]));
  }
});

check("AES-KW wraps multiples of eight bytes, and at least sixteen", async () => {
  const wrapping = await importAes("AES-KW", KEYS[128], ["wrapKey", "unwrapKey"]);
  for (const length of [1, 8, 15, 17, 23]) {
    const hmac = await subtle.importKey("raw", new Uint8Array(length), { name: "HMAC", hash: "SHA-256" }, true, ["sign"]);
    await rejects("OperationError", subtle.wrapKey("raw", hmac, wrapping, "AES-KW"), "AES-GCM");
  }
  for (const length of [0, 8, 16, 23, 25]) {
    await rejects("OperationError", subtle.unwrapKey("raw", new Uint8Array(length), wrapping, "AES-KW", "AES-GCM", true, ["encrypt"]));
  }
});

check("large data is encrypted like small data", async () => {
  const plain = new Uint8Array(300_000).map((_, at) => at);
  for (const name of CIPHERS) {
    const key = await subtle.generateKey({ name, length: 256 }, false, ["encrypt", "decrypt"]);
    const algorithm = { name, ...PARAMETERS[name] };
    const data = plain.slice();
    const promise = subtle.encrypt(algorithm, key, data);
    data.fill(0);
    const encrypted = await promise;
    equal(hex(await subtle.decrypt(algorithm, key, encrypted)) === hex(plain), true, name);
    if (name === "AES-GCM") {
      new Uint8Array(encrypted)[200_000] ^= 1;
      await rejects("OperationError", subtle.decrypt(algorithm, key, encrypted));
    }
  }
});

check("keys are generated with 128, 192 or 256 bits, and differ", async () => {
  for (const name of [...CIPHERS, "AES-KW"]) {
    const usages = name === "AES-KW" ? ["wrapKey", "unwrapKey"] : ["encrypt", "decrypt", "wrapKey", "unwrapKey"];
    for (const length of [128, 192, 256]) {
      const key = await subtle.generateKey({ name, length }, true, usages);
      equal([key.type, key.extractable, key.algorithm, key.usages], ["secret", true, { name, length }, usages]);
      const raw = hex(await subtle.exportKey("raw", key));
      equal(raw.length, length / 4);
      equal(raw === hex(await subtle.exportKey("raw", await subtle.generateKey({ name, length }, true, usages))), false);
    }
    for (const length of [0, 1, 64, 127, 129, 512]) {
      await rejects("OperationError", subtle.generateKey({ name, length }, true, usages), "128, 192 or 256");
    }
    await rejects("TypeError", subtle.generateKey({ name }, true, usages));
    await rejects("TypeError", subtle.generateKey({ name, length: 65_536 }, true, usages));
    await rejects("SyntaxError", subtle.generateKey({ name, length: 128 }, true, ["sign"]), "cannot be used for 'sign'");
    await rejects("SyntaxError", subtle.generateKey({ name, length: 128 }, true, []));
  }
  await rejects("SyntaxError", subtle.generateKey({ name: "AES-KW", length: 128 }, true, ["encrypt"]));
});

check("keys are imported and exported as bytes and as JSON Web Keys", async () => {
  for (const [name, suffix] of [["AES-CBC", "CBC"], ["AES-CTR", "CTR"], ["AES-GCM", "GCM"], ["AES-KW", "KW"]]) {
    const usages = name === "AES-KW" ? ["wrapKey", "unwrapKey"] : ["encrypt", "decrypt"];
    for (const length of [128, 192, 256]) {
      const key = await importAes(name, KEYS[length], usages);
      equal(key.algorithm, { name, length });
      equal(hex(await subtle.exportKey("raw", key)), KEYS[length]);
      const jwk = await subtle.exportKey("jwk", key);
      equal(jwk, { kty: "oct", k: bytes(KEYS[length]).toBase64({ alphabet: "base64url", omitPadding: true }), alg: `A${length}${suffix}`, key_ops: usages, ext: true });
      equal(hex(await subtle.exportKey("raw", await subtle.importKey("jwk", jwk, name, true, usages))), KEYS[length]);
    }
    for (const format of ["spki", "pkcs8"]) {
      await rejects("NotSupportedError", subtle.importKey(format, bytes(KEYS[128]), name, true, usages), "'raw' or 'jwk'");
      await rejects("NotSupportedError", subtle.exportKey(format, await importAes(name, KEYS[128], usages)));
    }
    for (const length of [0, 1, 15, 17, 33, 64]) {
      await rejects("DataError", subtle.importKey("raw", new Uint8Array(length), name, true, usages));
    }
    await rejects("SyntaxError", subtle.importKey("raw", bytes(KEYS[128]), name, true, ["verify"]));
    await rejects("SyntaxError", subtle.importKey("raw", bytes(KEYS[128]), name, true, []));
  }
});

check("a JSON Web Key must match the requested algorithm, usages and extractability", async () => {
  const jwk = { kty: "oct", k: "K34VFiiu0qar9xWICc9PPA", alg: "A128GCM", use: "enc", key_ops: ["encrypt", "decrypt", "custom"], ext: true };
  const wanted = (change, extractable = true, usages = ["encrypt"]) => subtle.importKey("jwk", { ...jwk, ...change }, "AES-GCM", extractable, usages);
  equal((await wanted({})).algorithm.length, 128);
  equal((await wanted({ alg: undefined, use: undefined, key_ops: undefined, ext: undefined })).extractable, true);
  equal((await wanted({ ext: false }, false)).extractable, false);
  for (const change of [
    { kty: "RSA" }, { kty: undefined }, { kty: "OCT" }, { k: undefined }, { k: "K34VFiiu0qar9xWICc9PPA==" }, { k: "K34VFiiu0qar9xWICc9PP/" }, { k: "K34V Fiiu0qar9xWICc9PPA" },
    { k: "K34VF" }, { k: "" }, { k: "AAAA" }, { alg: "A256GCM" }, { alg: "A128CBC" }, { alg: "a128gcm" }, { use: "sig" }, { use: "" }, { key_ops: ["decrypt"] }, { key_ops: [] },
    { key_ops: ["encrypt", "encrypt"] }, { key_ops: ["encrypt", "custom", "custom"] }, { ext: false }, { key_ops: Array.from({ length: 100 }, (_, n) => `${n}`) },
  ]) await rejects("DataError", wanted(change));
  await rejects("TypeError", wanted({ key_ops: "encrypt" }).then(() => subtle.importKey("jwk", { ...jwk, key_ops: 1 }, "AES-GCM", true, ["encrypt"])));
  await rejects("SyntaxError", wanted({ kty: "RSA" }, true, ["sign"]));
});
