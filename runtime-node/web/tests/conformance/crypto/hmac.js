// Checks of HMAC (Web Cryptography §31), with the examples of RFC 2202 and RFC 4231.
import { about, check, equal, rejects } from "../check.js";
export { default } from "../check.js";

const { subtle } = crypto;
const text = (string) => new TextEncoder().encode(string);
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const importHmac = (key, hash, more = {}) => subtle.importKey("raw", key, { name: "HMAC", hash, ...more }, true, ["sign", "verify"]);

const EXAMPLES = [
  [new Uint8Array(20).fill(0x0b), text("Hi There"), {
    "SHA-1": "b617318655057264e28bc0b6fb378c8ef146be00",
    "SHA-256": "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    "SHA-384": "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59cfaea9ea9076ede7f4af152e8b2fa9cb6",
    "SHA-512": "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
  }],
  [text("Jefe"), text("what do ya want for nothing?"), {
    "SHA-1": "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
    "SHA-256": "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    "SHA-384": "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
    "SHA-512": "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
  }],
  [new Uint8Array(131).fill(0xaa), text("Test Using Larger Than Block-Size Key - Hash Key First"), {
    "SHA-256": "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    "SHA-384": "4ece084485813e9088d2c63a041bc5b44f9ef1012a2b588f3cd11f05033ac4c60c2ef6ab4030fe8296248df163f44952",
    "SHA-512": "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
  }],
];

about("SubtleCrypto: HMAC");

check("signatures match the standards", async () => {
  for (const [key, data, signatures] of EXAMPLES) {
    for (const hash of Object.keys(signatures)) {
      const imported = await importHmac(key, hash);
      const signature = await subtle.sign("HMAC", imported, data);
      equal(hex(signature), signatures[hash], hash);
      equal(await subtle.verify("HMAC", imported, signature, data), true);
    }
  }
});

check("a signature that is changed, truncated, extended or of other data is invalid", async () => {
  const key = await importHmac(text("key"), "SHA-256");
  const signature = new Uint8Array(await subtle.sign("HMAC", key, text("data")));
  const changed = signature.slice();
  changed[31] ^= 1;
  for (const other of [changed, signature.slice(0, 31), new Uint8Array(33), new Uint8Array(0)]) {
    equal(await subtle.verify("HMAC", key, other, text("data")), false);
  }
  equal(await subtle.verify("HMAC", key, signature, text("Data")), false);
});

check("large data is signed like small data", async () => {
  const key = await importHmac(text("key"), "SHA-512");
  const data = new Uint8Array(3_000_000).fill(1);
  const promise = subtle.sign("HMAC", key, data);
  data.fill(2);
  equal(await subtle.verify("HMAC", key, await promise, data.fill(1)), true);
});

check("generated keys have the block length of the hash by default", async () => {
  for (const [hash, length] of [["SHA-1", 512], ["SHA-256", 512], ["SHA-384", 1024], ["SHA-512", 1024]]) {
    const key = await subtle.generateKey({ name: "HMAC", hash }, true, ["verify", "sign"]);
    equal([key.type, key.algorithm, key.usages], ["secret", { name: "HMAC", hash: { name: hash }, length }, ["sign", "verify"]]);
    equal((await subtle.exportKey("raw", key)).byteLength, length / 8);
  }
  const odd = await subtle.generateKey({ name: "HMAC", hash: { name: "sha-256" }, length: 11 }, true, ["sign"]);
  equal(odd.algorithm, { name: "HMAC", hash: { name: "SHA-256" }, length: 11 });
  const raw = new Uint8Array(await subtle.exportKey("raw", odd));
  equal([raw.length, raw[1] & 0x1f], [2, 0]);
  await rejects("OperationError", subtle.generateKey({ name: "HMAC", hash: "SHA-1", length: 0 }, true, ["sign"]));
  await rejects("OperationError", subtle.generateKey({ name: "HMAC", hash: "SHA-1", length: 2 ** 32 - 1 }, true, ["sign"]));
  await rejects("TypeError", subtle.generateKey({ name: "HMAC", hash: "SHA-1", length: 2 ** 32 }, true, ["sign"]));
  await rejects("TypeError", subtle.generateKey({ name: "HMAC" }, true, ["sign"]));
  await rejects("NotSupportedError", subtle.generateKey({ name: "HMAC", hash: "MD5" }, true, ["sign"]));
  await rejects("SyntaxError", subtle.generateKey({ name: "HMAC", hash: "SHA-1" }, true, ["encrypt"]));
  await rejects("SyntaxError", subtle.generateKey({ name: "HMAC", hash: "SHA-1" }, true, []));
});

check("the length of an imported key may cut only bits of its last byte", async () => {
  equal((await importHmac(new Uint8Array(4), "SHA-1")).algorithm.length, 32);
  for (const length of [25, 31, 32]) equal((await importHmac(new Uint8Array(4), "SHA-1", { length })).algorithm.length, length);
  for (const length of [0, 24, 33, 2 ** 32 - 1]) await rejects("DataError", importHmac(new Uint8Array(4), "SHA-1", { length }));
  equal(hex(await subtle.exportKey("raw", await importHmac(bytes("ffff"), "SHA-1", { length: 9 }))), "ff80");
  await rejects("DataError", importHmac(new Uint8Array(0), "SHA-1"));
});

// RFC 7515 §A.1.
const JWS = {
  key: { kty: "oct", k: "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow" },
  input: "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
  signature: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
};

check("the JSON Web Signature of RFC 7515 is verified", async () => {
  const key = await subtle.importKey("jwk", JWS.key, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
  const signature = await subtle.sign("HMAC", key, text(JWS.input));
  equal(new Uint8Array(signature).toBase64({ alphabet: "base64url", omitPadding: true }), JWS.signature);
});

check("keys are imported and exported as JSON Web Keys", async () => {
  for (const [hash, alg] of [["SHA-1", "HS1"], ["SHA-256", "HS256"], ["SHA-384", "HS384"], ["SHA-512", "HS512"]]) {
    const key = await importHmac(bytes("0102ff"), hash);
    const jwk = await subtle.exportKey("jwk", key);
    equal(jwk, { kty: "oct", k: "AQL_", alg, key_ops: ["sign", "verify"], ext: true });
    const back = await subtle.importKey("jwk", jwk, { name: "HMAC", hash }, true, ["sign"]);
    equal([hex(await subtle.exportKey("raw", back)), back.usages], ["0102ff", ["sign"]]);
  }
  const jwk = { kty: "oct", k: "AQL_", alg: "HS256", use: "sig", key_ops: ["sign"], ext: false };
  const wanted = (change, extractable = false, usages = ["sign"]) =>
    subtle.importKey("jwk", { ...jwk, ...change }, { name: "HMAC", hash: "SHA-256" }, extractable, usages);
  equal((await wanted({})).extractable, false);
  for (const change of [{ kty: "EC" }, { k: undefined }, { k: "AQL" + "_=" }, { k: "" }, { alg: "HS1" }, { use: "enc" }, { key_ops: ["verify"] }, { key_ops: ["sign", "sign"] }]) {
    await rejects("DataError", wanted(change));
  }
  await rejects("DataError", wanted({}, true), "'ext'");
  await rejects("DataError", wanted({}, false, ["sign", "verify"]), "'verify'");
  await rejects("SyntaxError", wanted({}, false, []));
  await rejects("NotSupportedError", subtle.importKey("spki", bytes("00"), { name: "HMAC", hash: "SHA-256" }, true, ["sign"]));
});
