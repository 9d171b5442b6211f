// Checks of Ed25519 and X25519 (Web Cryptography §25, §26), with the examples of RFC 8032, RFC 7748
// and RFC 8037, and the encodings of RFC 8410.
import { about, check, equal, rejects } from "../check.js";
export { default } from "../check.js";

const { subtle } = crypto;
const text = (string) => new TextEncoder().encode(string);
const hex = (buffer) => new Uint8Array(buffer).toHex();
const bytes = (text) => Uint8Array.fromHex(text);
const base64 = (buffer) => new Uint8Array(buffer).toBase64({ alphabet: "base64url", omitPadding: true });

// RFC 8032 §7.1: private key, public key, message, signature.
const SIGNATURES = [
  ["9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"],
  ["4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"],
  ["c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7", "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"],
];
// RFC 7748 §5.2: scalar, coordinate, product.
const PRODUCTS = [
  ["a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4", "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
    "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"],
  ["4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d", "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
    "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"],
];
const KEYS = {
  Ed25519: {
    spki: "302a300506032b6570032100d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    pkcs8: "302e020100300506032b6570042204209d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    raw: "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", privateUsages: ["sign"], publicUsages: ["verify"],
  },
  X25519: {
    spki: "302a300506032b656e032100dd802ca898162f1d608d80ff02bd89c8f73d1fde2d8a704d3ac84ffa77755c71",
    pkcs8: "302e020100300506032b656e0422042077076d0a7318a57d3c16c17251b26645df4c2f92ebc099abca9ccc3dd1a2b4b0",
    raw: "dd802ca898162f1d608d80ff02bd89c8f73d1fde2d8a704d3ac84ffa77755c71", privateUsages: ["deriveKey", "deriveBits"], publicUsages: [],
  },
};
// The encodings of private keys, without the 32 bytes of the key at their end.
const PKCS8 = { Ed25519: "302e020100300506032b657004220420", X25519: "302e020100300506032b656e04220420" };
const importPrivate = (name, d, usages) => subtle.importKey("pkcs8", bytes(PKCS8[name] + d), name, true, usages);

about("SubtleCrypto: Ed25519, X25519");

check("Ed25519 produces the signatures of RFC 8032", async () => {
  for (const [d, raw, message, signature] of SIGNATURES) {
    const key = await importPrivate("Ed25519", d, ["sign"]);
    const publicKey = await subtle.importKey("raw", bytes(raw), "Ed25519", true, ["verify"]);
    equal(hex(await subtle.sign("Ed25519", key, bytes(message))), signature);
    equal(await subtle.verify({ name: "ed25519" }, publicKey, bytes(signature), bytes(message)), true);
    equal(await subtle.verify("Ed25519", publicKey, bytes(signature), text("another")), false);
    equal(await subtle.verify("Ed25519", publicKey, bytes(signature).fill(0, 40), bytes(message)), false);
    for (const length of [0, 32, 63, 65]) equal(await subtle.verify("Ed25519", publicKey, new Uint8Array(length), bytes(message)), false);
    await rejects("InvalidAccessError", subtle.sign("Ed25519", publicKey, bytes(message)));
    await rejects("InvalidAccessError", subtle.verify("Ed25519", key, bytes(signature), bytes(message)));
  }
});

check("the JSON Web Signature of RFC 8037 is reproduced with its key", async () => {
  const jwk = { kty: "OKP", crv: "Ed25519", d: "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" };
  const key = await subtle.importKey("jwk", jwk, "Ed25519", false, ["sign"]);
  const signature = await subtle.sign("Ed25519", key, text("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"));
  equal(base64(signature), "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg");
});

check("no signature is valid for a public key of small order", async () => {
  for (const raw of ["01" + "00".repeat(31), "00".repeat(32), "ec" + "ff".repeat(30) + "7f", "ee" + "ff".repeat(31), "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"]) {
    const key = await subtle.importKey("raw", bytes(raw), "Ed25519", true, ["verify"]);
    equal(await subtle.verify("Ed25519", key, bytes("01" + "00".repeat(63)), text("anything")), false);
  }
});

check("X25519 derives the secrets of RFC 7748", async () => {
  for (const [d, raw, product] of PRODUCTS) {
    const key = await importPrivate("X25519", d, ["deriveBits", "deriveKey"]);
    const algorithm = { name: "X25519", public: await subtle.importKey("raw", bytes(raw), "X25519", true, []) };
    equal([hex(await subtle.deriveBits(algorithm, key, 256)), hex(await subtle.deriveBits(algorithm, key))], [product, product]);
    equal(hex(await subtle.deriveBits(algorithm, key, 64)), product.slice(0, 16));
    await rejects("OperationError", subtle.deriveBits(algorithm, key, 257));
    const derived = await subtle.deriveKey(algorithm, key, { name: "HMAC", hash: "SHA-256", length: 256 }, true, ["sign"]);
    equal(hex(await subtle.exportKey("raw", derived)), product);
    await rejects("InvalidAccessError", subtle.deriveBits({ name: "X25519", public: key }, key, 256));
    await rejects("InvalidAccessError", subtle.deriveBits(algorithm, algorithm.public, 256));
  }
});

check("X25519 rejects a shared secret of zeros", async () => {
  const key = await importPrivate("X25519", PRODUCTS[0][0], ["deriveBits"]);
  for (const raw of ["00".repeat(32), "01" + "00".repeat(31), "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800", "ec" + "ff".repeat(30) + "7f"]) {
    const algorithm = { name: "X25519", public: await subtle.importKey("raw", bytes(raw), "X25519", true, []) };
    await rejects("OperationError", subtle.deriveBits(algorithm, key, 256));
  }
});

check("keys are generated as pairs", async () => {
  const signing = await subtle.generateKey("Ed25519", false, ["sign", "verify"]);
  equal([signing.privateKey.usages, signing.publicKey.usages, signing.privateKey.extractable, signing.publicKey.extractable], [["sign"], ["verify"], false, true]);
  equal(signing.publicKey.algorithm, { name: "Ed25519" });
  const signature = await subtle.sign("Ed25519", signing.privateKey, text("data"));
  equal(await subtle.verify("Ed25519", signing.publicKey, signature, text("data")), true);
  const mine = await subtle.generateKey("X25519", true, ["deriveBits"]);
  const theirs = await subtle.generateKey({ name: "x25519" }, true, ["deriveBits"]);
  equal(hex(await subtle.deriveBits({ name: "X25519", public: theirs.publicKey }, mine.privateKey, 256)),
    hex(await subtle.deriveBits({ name: "X25519", public: mine.publicKey }, theirs.privateKey, 256)));
  await rejects("SyntaxError", subtle.generateKey("Ed25519", true, ["deriveBits"]));
  await rejects("SyntaxError", subtle.generateKey("Ed25519", true, ["verify"]));
  await rejects("SyntaxError", subtle.generateKey("X25519", true, []));
});

check("keys are exported as they were imported", async () => {
  for (const [name, { spki, pkcs8, raw, privateUsages, publicUsages }] of Object.entries(KEYS)) {
    const key = await subtle.importKey("pkcs8", bytes(pkcs8), name, true, privateUsages);
    const publicKey = await subtle.importKey("raw", bytes(raw), name, true, publicUsages);
    equal([key.type, key.algorithm, key.usages, publicKey.type], ["private", { name }, privateUsages, "public"]);
    equal([hex(await subtle.exportKey("pkcs8", key)), hex(await subtle.exportKey("spki", publicKey)), hex(await subtle.exportKey("raw", publicKey))], [pkcs8, spki, raw]);
    equal(hex(await subtle.exportKey("raw", await subtle.importKey("spki", bytes(spki), name, true, publicUsages))), raw);
    const jwk = await subtle.exportKey("jwk", key);
    equal(jwk, { kty: "OKP", crv: name, x: base64(bytes(raw)), d: base64(bytes(pkcs8).slice(16)), key_ops: privateUsages, ext: true });
    equal(await subtle.exportKey("jwk", publicKey), { kty: "OKP", crv: name, x: base64(bytes(raw)), key_ops: publicUsages, ext: true });
    equal(hex(await subtle.exportKey("pkcs8", await subtle.importKey("jwk", jwk, name, true, privateUsages))), pkcs8);
    await rejects("InvalidAccessError", subtle.exportKey("raw", key));
    await rejects("InvalidAccessError", subtle.exportKey("spki", key));
    await rejects("InvalidAccessError", subtle.exportKey("pkcs8", publicKey));
    await rejects("SyntaxError", subtle.importKey("raw", bytes(raw), name, true, privateUsages));
    await rejects("SyntaxError", subtle.importKey("pkcs8", bytes(pkcs8), name, true, ["verify"]));
    await rejects("SyntaxError", subtle.importKey("pkcs8", bytes(pkcs8), name, true, []));
  }
});

check("invalid key data is a DataError", async () => {
  for (const [name, { spki, pkcs8, privateUsages, publicUsages }] of Object.entries(KEYS)) {
    const other = name === "X25519" ? KEYS.Ed25519 : KEYS.X25519;
    for (const length of [0, 31, 33]) await rejects("DataError", subtle.importKey("raw", new Uint8Array(length), name, true, publicUsages));
    for (const data of [other.spki, pkcs8, spki.slice(2), spki + "00", spki.slice(0, -2), ""]) {
      await rejects("DataError", subtle.importKey("spki", bytes(data), name, true, publicUsages));
    }
    for (const data of [other.pkcs8, spki, pkcs8.slice(0, -2), pkcs8 + "00", ""]) {
      await rejects("DataError", subtle.importKey("pkcs8", bytes(data), name, true, privateUsages));
    }
  }
});

check("a JSON Web Key must match the requested algorithm, usages and extractability", async () => {
  const jwk = { kty: "OKP", crv: "Ed25519", d: "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" };
  const wanted = (change, usages = ["sign"], name = "Ed25519") => subtle.importKey("jwk", { ...jwk, ...change }, name, true, usages);
  for (const alg of ["Ed25519", "EdDSA", undefined]) equal((await wanted({ alg, use: "sig", key_ops: ["sign"], ext: true })).type, "private");
  for (const change of [
    { kty: "EC" }, { kty: undefined }, { crv: "X25519" }, { crv: undefined }, { x: undefined }, { x: "AAAA" }, { x: jwk.d }, { d: "AAAA" }, { d: "" }, { d: jwk.x }, { alg: "ES256" }, { use: "enc" },
    { key_ops: ["verify"] }, { ext: false },
  ]) await rejects("DataError", wanted(change));
  await rejects("DataError", wanted({}, ["deriveBits"], "X25519"));
  await rejects("SyntaxError", wanted({}, ["verify"]));
  await rejects("SyntaxError", wanted({ d: undefined }, ["sign"]));
  equal((await wanted({ d: undefined }, ["verify"])).type, "public");
});
