// Checks of node:crypto: ciphers, scrypt, and hashes as streams.
import { Cipheriv, createCipheriv, createDecipheriv, createHash, createHmac, createSecretKey, getCipherInfo, getCiphers, scrypt, scryptSync } from "node:crypto";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

about("node:crypto");

const hex = (text) => Buffer.from(text, "hex");

check("CBC, CTR and ECB match NIST SP 800-38A", () => {
  const plain = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
  const counting = hex("000102030405060708090a0b0c0d0e0f"), counter = hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
  for (const [name, key, iv, expected] of [
    ["aes-128-cbc", "2b7e151628aed2a6abf7158809cf4f3c", counting, "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"],
    ["AES-256-CBC", "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", counting, "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d"],
    ["aes-192-ctr", "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b", counter, "1abc932417521ca24f2b0459fe7e6e0b090339ec0aa6faefd5ccc2c6f4ce8e94"],
    ["aes-128-ecb", "2b7e151628aed2a6abf7158809cf4f3c", null, "3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf"],
  ]) {
    const cipher = createCipheriv(name, hex(key), iv).setAutoPadding(false);
    equal(cipher.update(plain, undefined, "hex") + cipher.final("hex"), expected, name);
    const decipher = createDecipheriv(name, createSecretKey(hex(key)), iv).setAutoPadding(false);
    equal(Buffer.concat([decipher.update(expected, "hex"), decipher.final()]).equals(plain), true, name);
  }
});

check("GCM matches its specification, and ChaCha20-Poly1305 RFC 8439", () => {
  const sunscreen = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
  for (const [name, key, iv, aad, plain, expected, tag] of [
    ["aes-128-gcm", "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
      hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"),
      "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091", "5bc94fbc3221a5db94fae95ae7121a47"],
    ["chacha20-poly1305", "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f", "070000004041424344454647", "50515253c0c1c2c3c4c5c6c7",
      Buffer.from(sunscreen),
      "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d26586cec64b6116",
      "1ae10b594f09e26a7e902ecbd0600691"],
  ]) {
    const cipher = createCipheriv(name, hex(key), hex(iv), { authTagLength: 16 });
    cipher.setAAD(hex(aad));
    equal(cipher.update(plain).toString("hex") + cipher.final("hex"), expected, name);
    equal(cipher.getAuthTag().toString("hex"), tag, name);
    const decipher = createDecipheriv(name, hex(key), hex(iv), { authTagLength: 16 }).setAuthTag(hex(tag)).setAAD(hex(aad));
    equal(Buffer.concat([decipher.update(hex(expected)), decipher.final()]).equals(plain), true, name);
    const forged = createDecipheriv(name, hex(key), hex(iv), { authTagLength: 16 }).setAuthTag(hex(tag));
    forged.update(hex(expected));
    throws("Error", () => forged.final(), "unable to authenticate");
    throws("Error", () => createDecipheriv(name, hex(key), hex(iv), { authTagLength: 16 }).final(), "unable to authenticate");
  }
});

check("every cipher decrypts what it encrypts, in parts and as a stream", async () => {
  const data = Buffer.alloc(600_000, "some data ");
  for (const name of getCiphers()) {
    const { ivLength, keyLength, mode } = getCipherInfo(name);
    const key = Buffer.alloc(keyLength, 1), iv = ivLength === undefined ? null : Buffer.alloc(ivLength, 2);
    const cipher = createCipheriv(name, key, iv);
    const secret = Buffer.concat([cipher.update(data.subarray(0, 7)), cipher.update(data.subarray(7)), cipher.final()]);
    const decipher = createDecipheriv(name, key, iv);
    if (mode === "gcm" || mode === "stream") decipher.setAuthTag(cipher.getAuthTag());
    const pieces = [];
    await pipeline(Readable.from([secret.subarray(0, 100), secret.subarray(100)]), decipher, async (source) => {
      for await (const piece of source) pieces.push(piece);
    });
    equal(Buffer.concat(pieces).equals(data), true, name);
  }
});

check("text is returned in whole characters, and in whole groups of base64", () => {
  const key = Buffer.alloc(16, 1), iv = Buffer.alloc(16);
  const cipher = createCipheriv("aes-128-ctr", key, iv);
  const secret = cipher.update("h\u00e9llo w\u00f6rld \u{1f600}", "utf8", "base64") + cipher.update("!", "utf8", "base64") + cipher.final("base64");
  const bytes = Buffer.from(secret, "base64");
  const decipher = createDecipheriv("aes-128-ctr", key, iv);
  let text = "";
  for (const byte of bytes) text += decipher.update(Buffer.from([byte]), undefined, "utf8");
  equal(text + decipher.final("utf8"), "h\u00e9llo w\u00f6rld \u{1f600}!");
});

check("invalid arguments and states of ciphers are refused", () => {
  const key = Buffer.alloc(16), iv = Buffer.alloc(16);
  equal(throws("Error", () => createCipheriv("rot13", key, iv)).code, "ERR_CRYPTO_UNKNOWN_CIPHER");
  equal(throws("RangeError", () => createCipheriv("aes-256-cbc", key, iv)).code, "ERR_CRYPTO_INVALID_KEYLEN");
  equal(throws("TypeError", () => createCipheriv("aes-128-cbc", key, Buffer.alloc(12))).code, "ERR_CRYPTO_INVALID_IV");
  equal(throws("TypeError", () => createCipheriv("aes-128-gcm", key, Buffer.alloc(0))).code, "ERR_CRYPTO_INVALID_IV");
  throws("TypeError", () => createCipheriv("aes-128-cbc", key, null));
  equal(throws("TypeError", () => createCipheriv("aes-128-gcm", key, iv, { authTagLength: 3 })).code, "ERR_CRYPTO_INVALID_AUTH_TAG");
  equal(throws("TypeError", () => createDecipheriv("aes-128-gcm", key, iv).setAuthTag(Buffer.alloc(17))).code, "ERR_CRYPTO_INVALID_AUTH_TAG");
  equal(throws("Error", () => createCipheriv("aes-128-gcm", key, iv).getAuthTag()).code, "ERR_CRYPTO_INVALID_STATE");
  const cipher = createCipheriv("aes-128-cbc", key, iv);
  equal(cipher instanceof Cipheriv, true);
  cipher.final();
  equal(throws("Error", () => cipher.final()).code, "ERR_CRYPTO_INVALID_STATE");
  equal(throws("Error", () => cipher.update("a")).code, "ERR_CRYPTO_INVALID_STATE");
  const padded = createDecipheriv("aes-128-cbc", key, iv);
  padded.update(Buffer.alloc(32));
  equal(throws("Error", () => padded.final()).code, "ERR_OSSL_BAD_DECRYPT");
  const unpadded = createCipheriv("aes-128-cbc", key, iv).setAutoPadding(false);
  unpadded.update("a");
  equal(throws("Error", () => unpadded.final()).code, "ERR_OSSL_WRONG_FINAL_BLOCK_LENGTH");
});

check("ciphers are described", () => {
  equal(Object.entries(getCipherInfo("aes-256-gcm")).flat(), ["mode", "gcm", "name", "id-aes256-gcm", "nid", 901, "blockSize", 1, "ivLength", 12, "keyLength", 32]);
  equal(Object.entries(getCipherInfo("AES-128-ECB")).flat(), ["mode", "ecb", "name", "aes-128-ecb", "nid", 418, "blockSize", 16, "keyLength", 16]);
  equal([getCipherInfo(427).name, getCipherInfo("none"), getCipherInfo("aes-128-cbc", { ivLength: 12 })], ["aes-256-cbc", undefined, undefined]);
});

check("scrypt matches RFC 7914", async () => {
  const expected = "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906";
  equal(scryptSync("", "", 64, { N: 16, r: 1, p: 1 }).toString("hex"), expected);
  equal((await promisify(scrypt)("", "", 64, { cost: 16, blockSize: 1, parallelization: 1 })).toString("hex"), expected);
  equal(scryptSync("a", "b", 0, { N: 2 }).length, 0);
  equal(throws("RangeError", () => scryptSync("a", "b", 1, { N: 3 })).code, "ERR_CRYPTO_INVALID_SCRYPT_PARAMS");
  equal(throws("RangeError", () => scryptSync("a", "b", 1, { N: 2 ** 20 })).code, "ERR_CRYPTO_INVALID_SCRYPT_PARAMS");
  throws("RangeError", () => scryptSync("a", "b", 1, { N: 16, cost: 16 }));
  throws("RangeError", () => scryptSync("a", "b", 1, { N: 2, r: 2 ** 20 }));
});

check("hashes and HMACs are streams", async () => {
  const hash = createHash("sha1");
  hash.write("a");
  hash.end("bc");
  const [digest] = await hash.toArray();
  equal(digest.toString("hex"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  const hmac = createHmac("sha256", "key");
  await pipeline(Readable.from(["a", "b"]), hmac);
  equal(hmac.read().equals(createHmac("sha256", "key").update("ab").digest()), true);
  const text = createHash("md5").setEncoding("hex");
  text.end("");
  equal((await text.toArray()).join(""), "d41d8cd98f00b204e9800998ecf8427e");
  equal(createHash("sha256", { outputLength: 32 }).digest().length, 32);
  throws("Error", () => createHash("sha256", { outputLength: 16 }));
});
