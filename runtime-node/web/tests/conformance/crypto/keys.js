// Checks of CryptoKey, SubtleCrypto and Crypto (Web Cryptography §10, §13, §14): the attributes of
// keys, and the order in which arguments are checked. `timingSafeEqual` is an addition by
// Cloudflare.
import { about, check, equal, logs, rejects, throws } from "../check.js";
export { default } from "../check.js";

const { subtle } = crypto;
const text = (string) => new TextEncoder().encode(string);
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const aes = (usages = ["encrypt", "decrypt"], extractable = true, name = "AES-GCM") =>
  subtle.importKey("raw", new Uint8Array(16), name, extractable, usages);
const gcm = { name: "AES-GCM", iv: new Uint8Array(12) };

about("CryptoKey");

check("there is one SubtleCrypto, and no other can be constructed", () => {
  equal([crypto.subtle === crypto.subtle, crypto.subtle instanceof SubtleCrypto], [true, true]);
  throws("TypeError", () => new SubtleCrypto(), "crypto.subtle");
  throws("TypeError", () => new CryptoKey(), "importKey");
  throws("TypeError", () => new Crypto());
  equal(Object.prototype.toString.call(crypto.subtle), "[object SubtleCrypto]");
});

check("methods have as many parameters as are required", () => {
  const lengths = { encrypt: 3, decrypt: 3, sign: 3, verify: 4, digest: 2, generateKey: 3, deriveKey: 5, deriveBits: 2, importKey: 5, exportKey: 2, wrapKey: 4, unwrapKey: 7 };
  for (const [name, length] of Object.entries(lengths)) equal(SubtleCrypto.prototype[name].length, length, name);
  equal(Object.keys(SubtleCrypto.prototype).sort(), [...Object.keys(lengths), "timingSafeEqual"].sort());
  equal(Object.keys(CryptoKey.prototype), ["type", "extractable", "algorithm", "usages"]);
});

check("methods reject missing arguments and wrong receivers", async () => {
  for (const name of Object.keys(SubtleCrypto.prototype).filter((name) => name !== "timingSafeEqual")) {
    await rejects("TypeError", subtle[name](), "required");
    await rejects("TypeError", subtle[name].call({}, 1, 2, 3, 4, 5, 6, 7));
  }
});

check("a key's algorithm and usages are always the same objects, and changing them has no effect", async () => {
  const key = await aes(["decrypt"]);
  equal([key.algorithm === key.algorithm, key.usages === key.usages], [true, true]);
  key.algorithm.name = "AES-CBC";
  key.usages.push("encrypt");
  equal([key.algorithm.name, key.usages], ["AES-CBC", ["decrypt", "encrypt"]]);
  await rejects("InvalidAccessError", subtle.encrypt(gcm, key, text("x")));
  equal((await subtle.exportKey("jwk", key)).key_ops, ["decrypt"]);
});

check("usages are listed once each, in the order of the standard", async () => {
  const key = await aes(["unwrapKey", "wrapKey", "decrypt", "encrypt", "decrypt"]);
  equal(key.usages, ["encrypt", "decrypt", "wrapKey", "unwrapKey"]);
});

check("attributes cannot be set", async () => {
  const key = await aes();
  throws("TypeError", () => { key.type = "public"; });
  throws("TypeError", () => { key.extractable = true; });
});

check("objects that only look like a key are rejected", async () => {
  const key = await aes();
  const forged = [Object.create(key), Object.create(CryptoKey.prototype), { ...key }, new Proxy(key, {}), {}, null, "key", new ArrayBuffer(8)];
  for (const other of forged) {
    await rejects("TypeError", subtle.encrypt(gcm, other, text("x")), "not a CryptoKey");
    await rejects("TypeError", subtle.exportKey("raw", other));
    await rejects("TypeError", subtle.wrapKey("raw", other, key, gcm));
  }
  throws("TypeError", () => Object.getOwnPropertyDescriptor(CryptoKey.prototype, "type").get.call(Object.create(CryptoKey.prototype)));
});

check("a key that is not extractable is neither exported nor wrapped", async () => {
  const key = await aes(["encrypt"], false);
  const wrapping = await aes(["wrapKey"]);
  await rejects("InvalidAccessError", subtle.exportKey("raw", key), "extractable");
  await rejects("InvalidAccessError", subtle.exportKey("jwk", key));
  await rejects("InvalidAccessError", subtle.wrapKey("raw", key, wrapping, gcm));
});

check("a key is used only with its algorithm, and only for its usages", async () => {
  const key = await aes(["encrypt"]);
  const hmac = await subtle.importKey("raw", text("key"), { name: "HMAC", hash: "SHA-256" }, true, ["verify"]);
  await rejects("InvalidAccessError", subtle.encrypt({ name: "AES-CBC", iv: new Uint8Array(16) }, key, text("x")), "AES-GCM");
  await rejects("InvalidAccessError", subtle.decrypt(gcm, key, text("x")), "only for 'encrypt'");
  await rejects("InvalidAccessError", subtle.sign("HMAC", hmac, text("x")));
  await rejects("InvalidAccessError", subtle.sign("HMAC", key, text("x")));
  await rejects("InvalidAccessError", subtle.wrapKey("raw", key, key, gcm));
  await rejects("InvalidAccessError", subtle.unwrapKey("raw", new Uint8Array(32), key, gcm, "AES-GCM", true, ["encrypt"]));
  await rejects("NotSupportedError", subtle.sign("AES-GCM", key, text("x")));
  await rejects("NotSupportedError", subtle.encrypt("HMAC", hmac, text("x")));
});

check("arguments are checked in the order of the standard", async () => {
  const key = await aes(["encrypt"]);
  // The standard checks the types of the arguments, from left to right; then the algorithm; then
  // the key; then the algorithm's own requirements.
  await rejects("TypeError", subtle.encrypt("nonsense", {}, text("x")), "CryptoKey");
  await rejects("TypeError", subtle.encrypt("nonsense", key, "x"), "ArrayBuffer");
  await rejects("NotSupportedError", subtle.decrypt("nonsense", key, text("x")));
  await rejects("TypeError", subtle.decrypt({ name: "AES-CBC" }, key, text("x")), "'iv'");
  await rejects("InvalidAccessError", subtle.decrypt({ name: "AES-CBC", iv: new Uint8Array(1) }, key, text("x")));
  await rejects("OperationError", subtle.encrypt({ ...gcm, tagLength: 1 }, key, text("x")));
  await rejects("TypeError", subtle.importKey("nonsense", {}, "nonsense", true, ["nonsense"]), "'nonsense' is not a valid value");
  await rejects("TypeError", subtle.importKey("raw", new Uint8Array(1), "nonsense", true, ["nonsense"]));
  await rejects("TypeError", subtle.importKey("raw", new Uint8Array(1), "nonsense", true, "encrypt"));
  await rejects("NotSupportedError", subtle.importKey("raw", {}, "nonsense", true, ["sign"]));
  await rejects("TypeError", subtle.importKey("raw", {}, "AES-GCM", true, ["sign"]), "does not take a JsonWebKey");
  await rejects("TypeError", subtle.importKey("jwk", new Uint8Array(1), "AES-GCM", true, ["sign"]), "does not take bytes");
  await rejects("SyntaxError", subtle.importKey("raw", new Uint8Array(1), "AES-GCM", true, ["sign"]));
  await rejects("DataError", subtle.importKey("raw", new Uint8Array(1), "AES-GCM", true, []));
  await rejects("SyntaxError", subtle.importKey("raw", new Uint8Array(16), "AES-GCM", true, []), "keyUsages");
});

check("members of an algorithm are read in the order of Web IDL, and its name is read twice", async () => {
  const read = [];
  const spy = (object) => new Proxy(object, { get: (target, key) => { read.push(key); return target[key]; } });
  const key = await aes();
  await subtle.encrypt(spy({ ...gcm, tagLength: 128, additionalData: text("x") }), key, text("x"));
  equal(read.splice(0), ["name", "name", "additionalData", "iv", "tagLength"]);
  await subtle.generateKey(spy({ name: "HMAC", length: 8, hash: spy({ name: "SHA-1" }) }), true, ["sign"]);
  equal(read.splice(0), ["name", "name", "hash", "length", "name"]);
  await rejects("TypeError", subtle.generateKey(spy({ name: "RSA-PSS", hash: "SHA-1" }), true, ["sign"]));
  equal(read.splice(0), ["name", "name", "modulusLength"]);
  await rejects("DataError", subtle.importKey("jwk", spy({}), { name: "HMAC", hash: "SHA-1" }, true, ["sign"]));
  equal(read.splice(0), ["alg", "crv", "d", "dp", "dq", "e", "ext", "k", "key_ops", "kty", "n", "oth", "p", "q", "qi", "use", "x", "y"]);
});

check("usages are any iterable of strings", async () => {
  const key = await aes(new Set(["encrypt", { toString: () => "decrypt" }]));
  equal(key.usages, ["encrypt", "decrypt"]);
  for (const usages of [null, 1, {}, "encrypt"]) await rejects("TypeError", aes(usages));
  await rejects("TypeError", aes(["encrypt", "Decrypt"]));
});

check("keys are wrapped and unwrapped by every cipher that takes an IV or a counter", async () => {
  const key = await subtle.importKey("raw", text("0123456789abcdef"), "AES-CBC", true, ["encrypt"]);
  for (const algorithm of [gcm, { name: "AES-CBC", iv: new Uint8Array(16) }, { name: "AES-CTR", counter: new Uint8Array(16), length: 8 }]) {
    const wrapping = await aes(["wrapKey", "unwrapKey"], true, algorithm.name);
    for (const format of ["raw", "jwk"]) {
      const wrapped = await subtle.wrapKey(format, key, wrapping, algorithm);
      const back = await subtle.unwrapKey(format, wrapped, wrapping, algorithm, "AES-CBC", true, ["encrypt"]);
      equal([hex(await subtle.exportKey("raw", back)), back.algorithm], [hex(text("0123456789abcdef")), { name: "AES-CBC", length: 128 }]);
      const extractable = format !== "raw";
      const other = await subtle.unwrapKey(format, wrapped, wrapping, algorithm, "AES-CBC", extractable, ["encrypt"]);
      equal(other.extractable, extractable);
    }
  }
});

check("unwrapped data that is not a JSON Web Key is a DataError", async () => {
  const wrapping = await aes(["encrypt", "unwrapKey"]);
  for (const json of ["", "{", "null", "1", "[]", "{}", '{"k":"AAAAAAAAAAAAAAAAAAAAAA"}', '{"kty":{}}', '{"kty":"oct","k":"AAAAAAAAAAAAAAAAAAAAAA","key_ops":"x"}']) {
    const wrapped = await subtle.encrypt(gcm, wrapping, text(json));
    await rejects("DataError", subtle.unwrapKey("jwk", wrapped, wrapping, gcm, "AES-CBC", true, ["encrypt"]));
  }
  const wrapped = await subtle.encrypt(gcm, wrapping, text('{"kty":"oct","k":"AAAAAAAAAAAAAAAAAAAAAA"}'));
  equal((await subtle.unwrapKey("jwk", wrapped, wrapping, gcm, "AES-CBC", true, ["encrypt"])).algorithm.length, 128);
});

check("unwrapping needs usages, and an algorithm that can import the key", async () => {
  const wrapping = await aes(["wrapKey", "unwrapKey"]);
  const wrapped = await subtle.wrapKey("raw", await aes(), wrapping, gcm);
  await rejects("SyntaxError", subtle.unwrapKey("raw", wrapped, wrapping, gcm, "AES-CBC", true, []));
  await rejects("SyntaxError", subtle.unwrapKey("raw", wrapped, wrapping, gcm, "AES-CBC", true, ["sign"]));
  await rejects("NotSupportedError", subtle.unwrapKey("raw", wrapped, wrapping, gcm, "SHA-256", true, ["sign"]));
  await rejects("NotSupportedError", subtle.unwrapKey("spki", wrapped, wrapping, gcm, "AES-CBC", true, ["encrypt"]));
  await rejects("NotSupportedError", subtle.unwrapKey("raw", wrapped, wrapping, "HMAC", "AES-CBC", true, ["encrypt"]));
});

check("a clone of a key is the same key in another object", async () => {
  const key = await aes(["encrypt"], false);
  const copy = structuredClone({ key }).key;
  equal([copy === key, copy instanceof CryptoKey, copy.type, copy.extractable, copy.algorithm, copy.usages],
    [false, true, "secret", false, { name: "AES-GCM", length: 128 }, ["encrypt"]]);
  equal([copy.algorithm === key.algorithm, hex(await subtle.encrypt(gcm, copy, text("x")))], [false, hex(await subtle.encrypt(gcm, key, text("x")))]);
  await rejects("InvalidAccessError", subtle.exportKey("raw", copy));
});

check("console.log shows a key's attributes, but no key material", async () => {
  const key = await aes(["encrypt"]);
  const shown = "CryptoKey {\n  type: 'secret',\n  extractable: true,\n  algorithm: { name: 'AES-GCM', length: 128 },\n  usages: [ 'encrypt' ]\n}";
  logs("INFO", shown, () => console.log(key));
});

about("Crypto");

check("getRandomValues takes views of integers", () => {
  for (const other of [undefined, null, [], {}, new ArrayBuffer(1)]) throws("TypeError", () => crypto.getRandomValues(other));
  for (const View of [Float32Array, Float64Array, Float16Array]) throws("TypeMismatchError", () => crypto.getRandomValues(new View(1)));
  throws("TypeMismatchError", () => crypto.getRandomValues(new DataView(new ArrayBuffer(1))));
});

about("SubtleCrypto");

check("timingSafeEqual returns whether bytes are equal", () => {
  const bytes = (...list) => new Uint8Array(list);
  equal([subtle.timingSafeEqual(bytes(1, 2), bytes(1, 2).buffer), subtle.timingSafeEqual(bytes(1, 2), bytes(1, 3))], [true, false]);
  equal(subtle.timingSafeEqual(new DataView(new ArrayBuffer(0)), bytes()), true);
  const much = new Uint8Array(2 ** 20);
  equal(subtle.timingSafeEqual(much, much.slice()), true);
  equal(subtle.timingSafeEqual(much, much.with(2 ** 20 - 1, 1)), false);
  throws("TypeError", () => subtle.timingSafeEqual(bytes(1), bytes(1, 2)), "same length");
  throws("TypeError", () => subtle.timingSafeEqual("a", "a"));
});
