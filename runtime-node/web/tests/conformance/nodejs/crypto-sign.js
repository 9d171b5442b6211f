// Checks of node:crypto: signatures, encryption with RSA, and Diffie-Hellman on curves.
import { ECDH, constants, createECDH, createPrivateKey, createPublicKey, createSign, createVerify, diffieHellman, generateKeyPairSync, getCurves, privateDecrypt, privateEncrypt, publicDecrypt, publicEncrypt, sign, verify } from "node:crypto";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { about, check, equal, throws } from "../check.js";
import { RSA_PKCS8 } from "../key-fixtures.js";
export { default } from "../check.js";

about("node:crypto");

const RSA = createPrivateKey(RSA_PKCS8);
const P256 = createPrivateKey(`-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgEljYlZuK1IOHsXc7
D2W6Nant4318dkvwY5MPjy1GqfqhRANCAATVZguC6OKm+xJ3dL/C5X7IP1/pQiIw
LVHznAbyFqEGVM2n6cfeJauoJgy4W42huW9S3ondayLBu47Wq1/yP786
-----END PRIVATE KEY-----
`);
const P384 = createPrivateKey(`-----BEGIN PRIVATE KEY-----
MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDBjDrvk1PuA5KKvN0Wn
5nGesSow5sF3QFNwAgMmEBaBbg2sEfSX/ABa6Jt/VZm+RaShZANiAARBrFOQxI5V
QcKMLeMNXeYCKAL+1cIN9Wmys0SbTidfgIakFdkvj1ao0zya1+62A1QTlrXBjkoy
RbNryndIVxLqoaFx/IO0/5lZyxKKVCXszV6yV0ZsIDTv4eICPc7d6/I=
-----END PRIVATE KEY-----
`);
const ED25519 = createPrivateKey(`-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIDJ7yB3PRGlcEH1nLTpQJ8vuyZV3aaT+2kr7Ln778ORS
-----END PRIVATE KEY-----
`);
const DATA = Buffer.from("The quick brown fox");

// Results of Node.js for these keys and this data.
const NODEJS = {
  pkcs1: "HkdOLEpDRe6EWVHuxEX7ZS/1EDRzWZESkR2q4DNkkiY5Y1TZ7P5ojadlQAgVwjBJE3vfnDUpNtumIsHUcZFpoMuK6prm3ua4HjIfjih5uR/JRrBZFuz6hcVXR4RztihnmDwRqMze3aXBezf/1otLAlzY9VRZ+4WXhy4sILKymlmwIh19eGPet2D2nXk9ikVI/3Iwupzmn+jsLUwJjEkEKfy/dZGjPDbLUP8H3fKJfQRppTaSKUR0HuHzy0C1QzCXEfXNhthtSvfq2O90cRGVbsjPQoLPA0q/z/dyYjOYNV89oggdCEzupzURdnxQIvXD2VqjZvrP4fx/0pwV+NbM0Q==",
  pss: "Gn0T6K5UXsGC8bW7q8gGkj5hIGHK2YSEN3faNx5Frub8XWz9toKnTSYNVdW5irUabwB3zDuhPUr6MAAm6DiYkJPaRLTkA/dzZFaX13fdSAINucWyqif8NtegWRJ5XEdorPG92YqMYKIqQJrXHOJ1f1MM56fqZSQRM2p9mdOBoAYB9wUBUbzcN2gNYfY9921xtTdO7y1dXm1Uoj7WV4eLk/Rec1LBF7xZfSJ69FYk0tqAuTtF24qz7251y0Uh4jDliUqAhYA9X39bR/5tEw4E3H+JFtKpoaqlQY888ONygQ1QpLT4bkGXZNChcIdFsWyvR8T4kFLjut4PCDT6Lktz1A==",
  ecdsa: "MEQCIDswHjBZG68yrvg+euWZ4Km2fy1/d2+XOvm/5exdv7kvAiAHFlsBmsvOSq4dmu9UrgTFqIpBOi/KaVziYZXZDBJD8A==",
  p1363: "DHgEAaPli7mT35IWxiZxfJU0b6ZCvqpL6xe1RmBghFZrgvYlyC7/m4dV0EPujc0a39oKagnxYie2+FpeLbN0u9kW5xx22dbKvGsFaFZvLDbFHLAIAi7VpLGuRLz2ImSX",
  ed: "9kmSN2I4ksxArtQ03v+4av7zKB4ifJ5VbwfpX+Xp1E4A9DxIg8F3ptY5p0ZtZCHarel5TPxWX3WVH26sftEtDw==",
  oaep: "mas30oRhGHEGSgtcF4WJLrRKMXO2vbcbyZijsKqIpg5P2cjiXMa5ePD5inz+xNf45y+kHNtySBCihEaFR3aepMoNq7Dte5asD1SO4qlDiEbrMtaJhjFUDDJvLdrfK8fb1eXkSahPwkwiCRDv4ntnTAJa3k+35kbmf17S+TkEMSUdOKdQsRqu5XdONlVPtLH+sa9K/CLMzDG0nUL/k+2EEw+psdr0c5GfJUFNBViKVvYYF3Mw+OZv9cnUHtKJrDh4F3jZZDugt7B1IUNvzN8bnxm4iDqk49cb+icpf22R5kQKk+Aw3/FdHdxQ4Ru/cT5w+JwDCdz5iNDX45bqT0ru7Q==",
  private: "kYDkyoCrYg1DOsTnI+WU8Jub1fuxpDxdAl6fejy1gpK21rhPXWFZT68Kvc7wDDvguvjCiz4KVfDImryaCH1PLUeTjtPp7Eh2YNNwXUkJGrrAAVo+M9LdjsfwQH9zaXfgI4S/e0G+/h+8PZvPsW4RKrjxFmdERv2IQ3Pz6q7ZeOW77cr/KJCTJs3c5ZmvMGRwzgRj9BOgMRV8SDo1W/wha/mRL+zT6W7q67jYhZ/Wh5u0ytpYjSN+WBFiaZ5oHBCs/7jBgwCJXXPCixNDRpArJP2Fdef946n3+FyGTl1IgoLziyWt56NU+LN1SIDMcWZe0l80J03J78vlfZnsGcFZPA==",
};
const bytes = (text) => Buffer.from(text, "base64");
const { RSA_PKCS1_OAEP_PADDING, RSA_PKCS1_PADDING, RSA_PKCS1_PSS_PADDING, RSA_PSS_SALTLEN_DIGEST } = constants;

check("signatures by Node.js are valid, and deterministic signatures are the same", () => {
  const pss = { padding: RSA_PKCS1_PSS_PADDING, saltLength: RSA_PSS_SALTLEN_DIGEST };
  equal(sign("sha256", DATA, RSA).toString("base64"), NODEJS.pkcs1);
  equal(sign(null, DATA, ED25519).toString("base64"), NODEJS.ed);
  equal(createSign("RSA-SHA256").update("The quick ").update("brown fox").sign(RSA, "base64"), NODEJS.pkcs1);
  equal(verify("sha256", DATA, RSA, bytes(NODEJS.pkcs1)), true);
  equal(verify("sha512", DATA, { key: RSA, ...pss }, bytes(NODEJS.pss)), true);
  equal(verify("sha512", DATA, { key: RSA, padding: RSA_PKCS1_PSS_PADDING }, bytes(NODEJS.pss)), true);
  equal(verify("sha512", DATA, { key: RSA, padding: RSA_PKCS1_PSS_PADDING, saltLength: 20 }, bytes(NODEJS.pss)), false);
  equal(verify("sha256", DATA, P256, bytes(NODEJS.ecdsa)), true);
  equal(verify("sha384", DATA, { key: P384, dsaEncoding: "ieee-p1363" }, bytes(NODEJS.p1363)), true);
  equal(verify(null, DATA, createPublicKey(ED25519), bytes(NODEJS.ed)), true);
  equal(createVerify("SHA256").update(DATA).verify(createPublicKey(P256), NODEJS.ecdsa, "base64"), true);
});

check("a signature is valid only for its data, key, hash and encoding", async () => {
  for (const [name, key, hash, options] of [
    ["PKCS #1", RSA, "sha512", {}], ["PSS", RSA, "sha1", { padding: RSA_PKCS1_PSS_PADDING }], ["ECDSA", P256, "sha384", {}],
    ["P-1363", P384, "sha256", { dsaEncoding: "ieee-p1363" }], ["Ed25519", ED25519, null, {}],
  ]) {
    const signature = sign(hash, DATA, { key, ...options });
    const later = await promisify(sign)(hash, DATA, { key, ...options });
    equal([verify(hash, DATA, { key, ...options }, signature), verify(hash, DATA, { key, ...options }, later)], [true, true], name);
    equal(verify(hash, Buffer.from("The quick brown cat"), { key, ...options }, signature), false, name);
    const changed = Buffer.from(signature);
    changed[10] ^= 1;
    equal(verify(hash, DATA, { key, ...options }, changed), false, name);
    equal(await promisify(verify)(hash, DATA, { key, ...options }, signature.subarray(1)), false, name);
    if (hash !== null) equal(verify(hash === "sha256" ? "sha512" : "sha256", DATA, { key, ...options }, signature), false, name);
  }
  equal(verify("sha256", DATA, { key: P256, dsaEncoding: "ieee-p1363" }, bytes(NODEJS.ecdsa)), false);
  equal(sign("sha256", DATA, { key: P384, dsaEncoding: "ieee-p1363" }).length, 96);
});

check("Sign and Verify are streams", async () => {
  const signing = createSign("sha256");
  await pipeline(Readable.from([Buffer.from("The quick "), Buffer.from("brown fox")]), signing);
  equal(signing.sign(RSA, "base64"), NODEJS.pkcs1);
  const verifying = createVerify("sha256");
  verifying.write("The quick brown fox");
  verifying.end();
  equal(verifying.verify(RSA, bytes(NODEJS.pkcs1)), true);
});

check("invalid arguments of signatures are refused", () => {
  throws("TypeError", () => createSign("sha99"), "sha99");
  throws("Error", () => createSign("sha256").sign(), "No key");
  throws("TypeError", () => createSign("sha256").sign(createPublicKey(RSA)), "private");
  throws("TypeError", () => sign("sha256", DATA, { key: RSA, padding: 99 }));
  throws("TypeError", () => sign("sha256", DATA, { key: P256, dsaEncoding: "raw" }));
  throws("TypeError", () => sign("sha256", DATA, ED25519));
  throws("Error", () => sign("sha256", DATA, generateKeyPairSync("x25519").privateKey), "not supported");
  const once = createSign("sha256").update(DATA);
  once.sign(RSA);
  equal(throws("Error", () => once.sign(RSA)).code, "ERR_CRYPTO_INVALID_STATE");
  throws("Error", () => sign("sha512", DATA, { key: RSA, padding: RSA_PKCS1_PSS_PADDING, saltLength: 250 }));
});

check("RSA encrypts for a private key, and recovers what it signed", () => {
  const label = { oaepHash: "sha256", oaepLabel: Buffer.from("label") };
  equal(privateDecrypt({ key: RSA, ...label }, bytes(NODEJS.oaep)).toString(), "hidden");
  const secret = publicEncrypt(createPublicKey(RSA), Buffer.from("more"));
  equal([secret.length, privateDecrypt({ key: RSA, padding: RSA_PKCS1_OAEP_PADDING }, secret).toString()], [256, "more"]);
  equal(throws("Error", () => privateDecrypt({ key: RSA, ...label }, secret)).code, "ERR_OSSL_RSA_OAEP_DECODING_ERROR");
  equal(throws("Error", () => publicEncrypt(RSA, Buffer.alloc(256))).code, "ERR_OSSL_RSA_DATA_TOO_LARGE_FOR_KEY_SIZE");
  equal(privateEncrypt(RSA, Buffer.from("raw")).toString("base64"), NODEJS.private);
  equal(publicDecrypt(RSA, bytes(NODEJS.private)).toString(), "raw");
  equal(publicEncrypt({ key: RSA, padding: RSA_PKCS1_PADDING }, Buffer.from("a")).length, 256);
  equal(throws("TypeError", () => privateDecrypt({ key: RSA, padding: RSA_PKCS1_PADDING }, secret)).code, "ERR_INVALID_ARG_VALUE");
  throws("Error", () => publicEncrypt(P256, Buffer.from("a")));
});

check("ECDH derives the same secret on both sides, in every form of a point", () => {
  equal(getCurves(), ["prime256v1", "secp384r1", "secp521r1"]);
  for (const curve of getCurves()) {
    const [alice, bob] = [createECDH(curve), createECDH(curve)];
    alice.generateKeys();
    const compressed = bob.generateKeys("hex", "compressed");
    equal(alice.computeSecret(compressed, "hex", "hex"), bob.computeSecret(alice.getPublicKey()).toString("hex"), curve);
    const hybrid = bob.getPublicKey(null, "hybrid");
    equal([hybrid[0] === 6 || hybrid[0] === 7, ECDH.convertKey(compressed, curve, "hex", "hex", "uncompressed")], [true, bob.getPublicKey("hex")], curve);
  }
  // RFC 5903 §8.1.
  const known = createECDH("prime256v1");
  known.setPrivateKey("C88F01F510D9AC3F70A292DAA2316DE544E9AAB8AFE84049C62A9C57862D1433", "hex");
  equal(known.getPublicKey("hex"), "04dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c37725811805271a0461cdb8252d61f1c456fa3e59ab1f45b33accf5f58389e0577b8990bb3");
  const other = "04d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf6356fbf3ca366cc23e8157854c13c58d6aac23f046ada30f8353e74f33039872ab";
  equal(known.computeSecret(other, "hex", "hex"), "d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de");
  equal(throws("Error", () => known.computeSecret(Buffer.alloc(65, 4))).code, "ERR_CRYPTO_ECDH_INVALID_PUBLIC_KEY");
  throws("Error", () => known.setPrivateKey(Buffer.alloc(32)));
  throws("Error", () => createECDH("prime256v1").getPublicKey());
  throws("TypeError", () => createECDH("secp256k1"));
});

check("diffieHellman derives the same secret on both sides", async () => {
  for (const [type, options] of [["x25519", undefined], ["ec", { namedCurve: "P-384" }]]) {
    const [alice, bob] = [generateKeyPairSync(type, options), generateKeyPairSync(type, options)];
    const one = diffieHellman({ privateKey: alice.privateKey, publicKey: bob.publicKey });
    const other = await promisify(diffieHellman)({ privateKey: bob.privateKey, publicKey: alice.publicKey });
    equal([one.equals(other), one.length], [true, type === "ec" ? 48 : 32], type);
  }
  throws("Error", () => diffieHellman({ privateKey: P256, publicKey: createPublicKey(P384) }), "ncompatible");
  throws("Error", () => diffieHellman({ privateKey: RSA, publicKey: createPublicKey(RSA) }), "ncompatible");
});
