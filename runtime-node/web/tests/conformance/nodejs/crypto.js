// Checks of node:crypto: hashes, HMACs, PBKDF2, HKDF and random values.
import crypto, { createHash, createHmac, getHashes, hash, hkdf, hkdfSync, pbkdf2, pbkdf2Sync, randomBytes, randomFill, randomFillSync, randomInt, randomUUID, timingSafeEqual, webcrypto } from "node:crypto";
import { promisify } from "node:util";
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

about("node:crypto");

check("the hashes of the empty text and of abc are those of the standards", () => {
  for (const [name, empty, abc] of [
    ["md5", "d41d8cd98f00b204e9800998ecf8427e", "900150983cd24fb0d6963f7d28e17f72"],
    ["sha1", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "a9993e364706816aba3e25717850c26c9cd0d89d"],
    ["sha224", "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"],
    ["SHA256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
    ["sha-256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
    ["RSA-SHA1", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "a9993e364706816aba3e25717850c26c9cd0d89d"],
    ["sha3-256", "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"],
  ]) {
    equal([createHash(name).digest("hex"), createHash(name).update("abc").digest("hex")], [empty, abc], name);
  }
  equal(createHash("sha512").update("abc").digest("hex").slice(0, 16), "ddaf35a193617aba");
  equal(createHash("sha384").update("abc").digest("hex").slice(0, 16), "cb00753f45a35e8b");
  for (const name of getHashes()) equal(createHash(name).update("a").digest().length > 0, true, name);
});

check("a hash takes data of any type and encoding, and returns its result in any encoding", () => {
  const abc = createHash("sha256").update("abc").digest("hex");
  equal(createHash("sha256").update("a").update(Buffer.from("b")).update(new Uint8Array([99]).buffer).digest("hex"), abc);
  equal(createHash("sha256").update("616263", "hex").digest("hex"), abc);
  equal(createHash("sha256").update(new DataView(new Uint8Array([97, 98, 99]).buffer)).digest().toString("hex"), abc);
  equal(createHash("sha1").update("abc").digest("base64"), "qZk+NkcGgWq6PiVxeFDCbJzQ2J0=");
  equal(createHash("sha1").update("abc").digest("base64url"), "qZk-NkcGgWq6PiVxeFDCbJzQ2J0");
  equal([hash("sha1", "abc"), hash("md5", "", "base64")], ["a9993e364706816aba3e25717850c26c9cd0d89d", "1B2M2Y8AsgTpgAmY7PhCfg=="]);
  const large = Buffer.alloc(3_000_000, 7);
  const parts = createHash("sha256");
  for (let i = 0; i < 30; i++) parts.update(large.subarray(i * 100_000, (i + 1) * 100_000));
  equal(createHash("sha256").update(large).digest("hex"), parts.digest("hex"));
});

check("a hash cannot be used after digest, but an earlier copy can", () => {
  const one = createHash("sha256").update("a");
  const copy = one.copy();
  equal(one.digest("hex"), createHash("sha256").update("a").digest("hex"));
  equal(copy.update("b").digest("hex"), createHash("sha256").update("ab").digest("hex"));
  equal(throws("Error", () => one.update("x")).code, "ERR_CRYPTO_HASH_FINALIZED");
  equal(throws("Error", () => one.digest()).code, "ERR_CRYPTO_HASH_FINALIZED");
  equal(throws("Error", () => one.copy()).code, "ERR_CRYPTO_HASH_FINALIZED");
});

check("invalid algorithms and data are rejected", () => {
  throws("Error", () => createHash("sha99"), "sha99");
  equal(throws("TypeError", () => createHmac("sha99", "k")).code, "ERR_CRYPTO_INVALID_DIGEST");
  equal(throws("TypeError", () => createHash(1)).code, "ERR_INVALID_ARG_TYPE");
  equal(throws("TypeError", () => createHash("md5").update(1)).code, "ERR_INVALID_ARG_TYPE");
  throws("TypeError", () => createHmac("sha256", undefined));
});

check("HMAC matches RFC 4231", () => {
  equal(createHmac("sha256", Buffer.alloc(20, 0x0B)).update("Hi There").digest("hex"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  equal(createHmac("sha512", "Jefe").update("what do ya want for nothing?").digest("hex").slice(0, 32), "164b7a7bfcf819e2e395fbe73b56e0a3");
  equal(createHmac("sha256", Buffer.alloc(131, 0xAA)).update("Test Using Larger Than Block-Size Key - Hash Key First").digest("hex"), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  equal(createHmac("md5", "Jefe").update("what do ya want for nothing?").digest("hex"), "750c783e6ab0b503eaa86e310a5db738");
  const long = Buffer.alloc(300_000, 1);
  equal(createHmac("sha256", long).update("x").digest("hex"), createHmac("sha256", createHash("sha256").update(long).digest()).update("x").digest("hex"));
  equal(createHmac("sha256", "").update("").digest("hex"), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
});

check("PBKDF2 matches RFC 6070", async () => {
  equal(pbkdf2Sync("password", "salt", 1, 20, "sha1").toString("hex"), "0c60c80f961f0e71f3a9b524af6012062fe037a6");
  equal(pbkdf2Sync("password", "salt", 4096, 20, "sha1").toString("hex"), "4b007901b765489abead49d926f721d065a429c1");
  equal(pbkdf2Sync("passwordPASSWORDpassword", "saltSALTsaltSALTsaltSALTsaltSALTsalt", 4096, 25, "sha1").toString("hex"), "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038");
  const later = promisify(pbkdf2);
  equal((await later("password", "salt", 4096, 20, "sha1")).toString("hex"), "4b007901b765489abead49d926f721d065a429c1");
  equal((await later("password", "salt", 10, 40, "md5")).equals(pbkdf2Sync("password", "salt", 10, 40, "md5")), true);
  throws("TypeError", () => pbkdf2Sync("a", "b", 1, 1, "none"));
  throws("RangeError", () => pbkdf2Sync("a", "b", 0, 1, "sha1"));
});

check("HKDF matches RFC 5869", async () => {
  const [ikm, salt, info] = [Buffer.alloc(22, 0x0B), Buffer.from("000102030405060708090a0b0c", "hex"), Buffer.from("f0f1f2f3f4f5f6f7f8f9", "hex")];
  const expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
  equal(Buffer.from(hkdfSync("sha256", ikm, salt, info, 42)).toString("hex"), expected);
  equal(Buffer.from(await promisify(hkdf)("sha256", ikm, salt, info, 42)).toString("hex"), expected);
  equal(throws("RangeError", () => hkdfSync("sha256", ikm, salt, info, 255 * 32 + 1)).code, "ERR_CRYPTO_INVALID_KEYLEN");
});

check("random values are returned in every form", async () => {
  equal([randomBytes(0).length, randomBytes(200_000).length, Buffer.isBuffer(randomBytes(1))], [0, 200_000, true]);
  equal(randomBytes(200_000).subarray(150_000).some((byte) => byte !== 0), true);
  equal((await promisify(randomBytes)(8)).length, 8);
  const view = new Uint32Array(4);
  equal([randomFillSync(view, 2) === view, view[0], view[1]], [true, 0, 0]);
  equal(view[2] !== 0 || view[3] !== 0, true);
  equal((await promisify(randomFill)(new Uint8Array(3))).length, 3);
  equal(/^[0-9a-f]{8}-[0-9a-f]{4}-4/.test(randomUUID()), true);
  equal(crypto.getRandomValues(new Uint8Array(2)).length, 2);
  const seen = new Set();
  for (let i = 0; i < 200; i++) seen.add(randomInt(3));
  equal([...seen].sort(), [0, 1, 2]);
  equal(randomInt(5, 6), 5);
  equal(await new Promise((resolve) => randomInt(7, 8, (error, value) => resolve([error, value]))), [null, 7]);
  throws("RangeError", () => randomInt(5, 5));
  throws("RangeError", () => randomBytes(-1));
});

check("timingSafeEqual compares data of the same length", () => {
  equal([timingSafeEqual(Buffer.from("abc"), new Uint8Array([97, 98, 99])), timingSafeEqual(Buffer.from("abc"), Buffer.from("abd"))], [true, false]);
  equal(throws("RangeError", () => timingSafeEqual(Buffer.alloc(1), Buffer.alloc(2))).code, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH");
});

check("webcrypto is the global crypto", () => {
  equal([webcrypto === globalThis.crypto, crypto.subtle === globalThis.crypto.subtle], [true, true]);
});
