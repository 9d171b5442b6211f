// Checks of HKDF and PBKDF2 (Web Cryptography §33, §34), with the examples of RFC 5869 and RFC 6070
// and with the published results of these examples for SHA-256 and SHA-512; and checks of deriveKey
// with every algorithm that derives keys.
import { about, check, equal, rejects } from "../check.js";
export { default } from "../check.js";

const { subtle } = crypto;
const text = (string) => new TextEncoder().encode(string);
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const secret = (name, key, usages = ["deriveBits", "deriveKey"]) => subtle.importKey("raw", key, name, false, usages);

// RFC 5869, appendix A: 1 to 3 with SHA-256, 4 and 7 with SHA-1.
const HKDF = [
  ["SHA-256", "0b".repeat(22), "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
    "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"],
  ["SHA-256", Array.from({ length: 80 }, (_, n) => n.toString(16).padStart(2, "0")).join(""),
    Array.from({ length: 80 }, (_, n) => (0x60 + n).toString(16)).join(""), Array.from({ length: 80 }, (_, n) => (0xb0 + n).toString(16)).join(""),
    "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"],
  ["SHA-256", "0b".repeat(22), "", "", "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"],
  ["SHA-1", "0b".repeat(11), "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
    "085a01ea1b10f36933068b56efa5ad81a4f14b822f5b091568a9cdd4f155fda2c22e422478d305f3f896"],
  ["SHA-1", "0c".repeat(22), "", "", "2c91117204d745f3500d636a62f64f0ab3bae548aa53d423b0d1f27ebba6f5e5673a081d70cce7acfc48"],
];

about("SubtleCrypto: HKDF, PBKDF2");

check("HKDF matches RFC 5869", async () => {
  for (const [hash, key, salt, info, out] of HKDF) {
    const algorithm = { name: "HKDF", hash, salt: bytes(salt), info: bytes(info) };
    equal(hex(await subtle.deriveBits(algorithm, await secret("HKDF", bytes(key)), out.length * 4)), out);
  }
});

check("HKDF supports every hash", async () => {
  for (const [hash, size] of [["SHA-1", 20], ["SHA-256", 32], ["SHA-384", 48], ["SHA-512", 64]]) {
    const key = await secret("HKDF", text("secret"));
    const algorithm = { name: "HKDF", hash, salt: text("salt"), info: new Uint8Array(0) };
    const long = hex(await subtle.deriveBits(algorithm, key, 255 * size * 8));
    equal(long.slice(0, 32), hex(await subtle.deriveBits(algorithm, key, 128)));
    await rejects("OperationError", subtle.deriveBits(algorithm, key, 255 * size * 8 + 8), "at most");
    await rejects("OperationError", subtle.deriveBits(algorithm, key, 2 ** 32 - 8));
  }
});

// Password, salt, iterations, and the result for each hash.
const PBKDF2 = [
  ["password", "salt", 1, {
    "SHA-1": "0c60c80f961f0e71f3a9b524af6012062fe037a6",
    "SHA-256": "120fb6cffcf8b32c43e7225256c4f837a86548c92ccc35480805987cb70be17b",
    "SHA-512": "867f70cf1ade02cff3752599a3a53dc4af34c7a669815ae5d513554e1c8cf252c02d470a285a0501bad999bfe943c08f050235d7d68b1da55e63f73b60a57fce",
  }],
  ["password", "salt", 2, {
    "SHA-1": "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957",
    "SHA-256": "ae4d0c95af6b46d32d0adff928f06dd02a303f8ef3c251dfd6e2d85a95474c43",
  }],
  ["password", "salt", 4096, {
    "SHA-1": "4b007901b765489abead49d926f721d065a429c1",
    "SHA-256": "c5e478d59288c841aa530db6845c4c8d962893a001ce4e11a4963873aa98134a",
  }],
  ["passwordPASSWORDpassword", "saltSALTsaltSALTsaltSALTsaltSALTsalt", 4096, {
    "SHA-1": "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038",
    "SHA-256": "348c89dbcbd32b2f32d814b8116e84cf2b17347ebc1800181c4e2a1fb8dd53e1c635518c7dac47e9",
  }],
  ["pass\0word", "sa\0lt", 4096, { "SHA-1": "56fa6aa75548099dcc37d7f03425e0c3", "SHA-256": "89b69d0516f829893c696226650a8687" }],
];

check("PBKDF2 matches RFC 6070", async () => {
  for (const [password, salt, iterations, outs] of PBKDF2) {
    const key = await secret("PBKDF2", text(password));
    for (const [hash, out] of Object.entries(outs)) {
      const algorithm = { name: "PBKDF2", hash, salt: text(salt), iterations };
      equal(hex(await subtle.deriveBits(algorithm, key, out.length * 4)), out, `${password} ${iterations} ${hash}`);
    }
  }
});

check("PBKDF2 accepts an empty key and an empty salt", async () => {
  const algorithm = { name: "PBKDF2", hash: "SHA-384", salt: new Uint8Array(0), iterations: 3 };
  equal((await subtle.deriveBits(algorithm, await secret("PBKDF2", new Uint8Array(0)), 384)).byteLength, 48);
});

check("PBKDF2 rejects zero iterations, and more than the CPU limit allows", async () => {
  const key = await secret("PBKDF2", text("password"));
  await rejects("OperationError", subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt: text("salt"), iterations: 0 }, key, 256));
  const error = await rejects("OperationError", subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt: text("salt"), iterations: 2 ** 32 - 1 }, key, 256), "limits.cpuMs");
  equal(/at least \d+ ms/.test(error.message), true);
  await rejects("OperationError", subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt: text("salt"), iterations: 100_000 }, key, 2 ** 27));
  await rejects("TypeError", subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt: text("salt"), iterations: 2 ** 32 }, key, 256));
});

check("the derived length is a multiple of eight bits, and may be zero", async () => {
  for (const algorithm of [{ name: "HKDF", hash: "SHA-1", salt: text("s"), info: text("i") }, { name: "PBKDF2", hash: "SHA-1", salt: text("s"), iterations: 1 }]) {
    const key = await secret(algorithm.name, text("key"));
    for (const length of [1, 7, 9]) await rejects("OperationError", subtle.deriveBits(algorithm, key, length));
    await rejects("OperationError", subtle.deriveBits(algorithm, key, null));
    await rejects("OperationError", subtle.deriveBits(algorithm, key));
    equal((await subtle.deriveBits(algorithm, key, 0)).byteLength, 0);
    await rejects("TypeError", subtle.deriveBits({ ...algorithm, hash: undefined }, key, 8));
    await rejects("TypeError", subtle.deriveBits({ ...algorithm, salt: undefined }, key, 8));
    await rejects("NotSupportedError", subtle.deriveBits({ ...algorithm, hash: "MD5" }, key, 8));
  }
});

check("keys for derivation are imported as raw bytes and are not extractable", async () => {
  for (const name of ["HKDF", "PBKDF2"]) {
    const key = await secret(name, text("key"));
    equal([key.type, key.extractable, key.algorithm, key.usages], ["secret", false, { name }, ["deriveKey", "deriveBits"]]);
    await rejects("SyntaxError", subtle.importKey("raw", text("key"), name, true, ["deriveBits"]), "extractable");
    await rejects("SyntaxError", subtle.importKey("raw", text("key"), name, false, ["encrypt"]));
    await rejects("SyntaxError", subtle.importKey("raw", text("key"), name, false, []));
    await rejects("NotSupportedError", subtle.importKey("jwk", { kty: "oct", k: "AAAA" }, name, false, ["deriveBits"]));
    await rejects("NotSupportedError", subtle.exportKey("raw", key));
    await rejects("NotSupportedError", subtle.generateKey(name, false, ["deriveBits"]));
  }
});

check("deriveKey derives keys for every algorithm with secret keys", async () => {
  const base = await secret("HKDF", text("secret"), ["deriveKey", "deriveBits"]);
  const algorithm = { name: "HKDF", hash: "SHA-256", salt: text("salt"), info: text("info") };
  const bits = hex(await subtle.deriveBits(algorithm, base, 1024));
  for (const [type, usages, length] of [
    [{ name: "AES-GCM", length: 128 }, ["encrypt"], 128], [{ name: "AES-CBC", length: 192 }, ["decrypt"], 192], [{ name: "AES-CTR", length: 256 }, ["encrypt"], 256],
    [{ name: "AES-KW", length: 256 }, ["wrapKey"], 256], [{ name: "HMAC", hash: "SHA-256" }, ["sign"], 512], [{ name: "HMAC", hash: "SHA-512" }, ["sign"], 1024],
    [{ name: "HMAC", hash: "SHA-1", length: 24 }, ["verify"], 24],
  ]) {
    const key = await subtle.deriveKey(algorithm, base, type, true, usages);
    equal([key.algorithm.length, hex(await subtle.exportKey("raw", key)), key.usages], [length, bits.slice(0, length / 4), usages]);
  }
});

check("deriveKey rejects with the errors of the standard", async () => {
  const both = await secret("HKDF", text("secret"));
  const onlyBits = await secret("HKDF", text("secret"), ["deriveBits"]);
  const onlyKey = await secret("HKDF", text("secret"), ["deriveKey"]);
  const algorithm = { name: "HKDF", hash: "SHA-256", salt: text("salt"), info: text("info") };
  const aes = { name: "AES-GCM", length: 128 };
  await rejects("InvalidAccessError", subtle.deriveKey(algorithm, onlyBits, aes, true, ["encrypt"]));
  await rejects("InvalidAccessError", subtle.deriveBits(algorithm, onlyKey, 8));
  await rejects("InvalidAccessError", subtle.deriveKey({ name: "PBKDF2", hash: "SHA-1", salt: text(""), iterations: 1 }, both, aes, true, ["encrypt"]));
  await rejects("OperationError", subtle.deriveKey(algorithm, both, { name: "AES-GCM", length: 100 }, true, ["encrypt"]));
  await rejects("TypeError", subtle.deriveKey(algorithm, both, "AES-GCM", true, ["encrypt"]), "'length'");
  await rejects("TypeError", subtle.deriveKey(algorithm, both, { name: "HMAC", hash: "SHA-1", length: 0 }, true, ["sign"]));
  await rejects("NotSupportedError", subtle.deriveKey(algorithm, both, { name: "ECDSA", namedCurve: "P-256" }, true, ["sign"]));
  await rejects("SyntaxError", subtle.deriveKey(algorithm, both, aes, true, ["sign"]));
  await rejects("SyntaxError", subtle.deriveKey(algorithm, both, aes, true, []));
  // Keys of these two algorithms have no length.
  await rejects("OperationError", subtle.deriveKey(algorithm, both, "HKDF", false, ["deriveBits"]));
  await rejects("OperationError", subtle.deriveKey(algorithm, both, "PBKDF2", false, ["deriveBits"]));
});
