// Checks that an imported key is exported unchanged, and that its signatures can be verified.

import { createPrivateKey, createPublicKey, sign, verify } from "node:crypto";
import { attempt, attemptLater, checker, same, sameBytes } from "./check.js";

const ALGORITHMS = [
  { name: "HMAC", hash: "SHA-256" }, { name: "AES-GCM" }, { name: "AES-KW" }, { name: "HKDF" }, { name: "PBKDF2" },
  { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }, { name: "RSA-PSS", hash: "SHA-1" }, { name: "RSA-OAEP", hash: "SHA-512" },
  { name: "ECDSA", namedCurve: "P-256" }, { name: "ECDSA", namedCurve: "P-384" }, { name: "ECDSA", namedCurve: "P-521" },
  { name: "ECDH", namedCurve: "P-256" }, { name: "ECDH", namedCurve: "P-521" }, { name: "Ed25519" }, { name: "X25519" },
];
const FORMATS = ["raw", "spki", "pkcs8", "jwk"];
const USAGES = ["sign", "verify", "encrypt", "decrypt", "wrapKey", "unwrapKey", "deriveKey", "deriveBits"];

const formatKey = (key, format) => format === "jwk" ? JSON.stringify(key) : String(new Uint8Array(key));

async function use(key, algorithm, data) {
  const signing = { saltLength: 8, ...algorithm, hash: "SHA-256" };
  if (key.usages.includes("sign")) {
    const signature = await attemptLater(() => crypto.subtle.sign(signing, key, data));
    if (signature === undefined || !key.usages.includes("verify")) return;
    same(await crypto.subtle.verify(signing, key, signature, data), true, "a signature by the same key");
    return;
  }
  if (key.usages.includes("verify")) {
    await attemptLater(() => crypto.subtle.verify(signing, key, data, data));
  }
  if (algorithm.name === "AES-GCM" && key.usages.includes("encrypt") && key.usages.includes("decrypt")) {
    const how = { name: "AES-GCM", iv: new Uint8Array(12) };
    const secret = await crypto.subtle.encrypt(how, key, data);
    sameBytes(new Uint8Array(await crypto.subtle.decrypt(how, key, secret)), data, "an AES-GCM round trip");
  }
}

// Returns the value of `make`, or undefined if it throws an error of Node.js, which has a code.
const attemptCoded = (make) => attempt(() => {
  try {
    return make();
  } catch (error) {
    if (typeof error?.code !== "string") throw error;
    return undefined;
  }
});

// Reads a key as Node.js does: as text, and in every format of DER.
function readWithNode(bytes) {
  const text = attemptCoded(() => createPublicKey({ key: bytes }));
  if (text !== undefined) same(createPublicKey(text.export({ format: "pem", type: "spki" })).equals(text), true, "a key in PEM");
  for (const type of ["spki", "pkcs1"]) attemptCoded(() => createPublicKey({ key: bytes, format: "der", type }));
  for (const type of ["pkcs8", "pkcs1", "sec1"]) {
    const key = attemptCoded(() => createPrivateKey({ key: bytes, format: "der", type }));
    if (key === undefined) continue;
    const written = key.export({ format: "der", type });
    same(createPrivateKey({ key: written, format: "der", type }).equals(key), true, type);
    const hash = key.asymmetricKeyType === "ed25519" ? null : "sha256";
    const signature = attemptCoded(() => sign(hash, bytes, key));
    if (signature !== undefined) same(verify(hash, bytes, key, signature), true, "a signature by the same key");
  }
}

export default checker(async (reader) => {
  const [algorithm, format, usages] = [reader.pick(ALGORITHMS), reader.pick(FORMATS), reader.number()];
  const allowed = USAGES.filter((_, i) => (usages >> i) & 1);
  const bytes = reader.rest;
  if (format !== "jwk") readWithNode(bytes);
  const data = format === "jwk" ? attempt(() => JSON.parse(new TextDecoder().decode(bytes))) : bytes;
  if (data === undefined) return;
  const read = (data) => attemptLater(() => crypto.subtle.importKey(format, data, algorithm, true, allowed));
  const key = await read(data);
  if (key === undefined) return;
  const written = await attemptLater(() => crypto.subtle.exportKey(format, key));
  if (written !== undefined) {
    const again = await crypto.subtle.importKey(format, written, algorithm, true, key.usages);
    same(formatKey(await crypto.subtle.exportKey(format, again), format), formatKey(written, format), `${algorithm.name} ${format}`);
  }
  await use(key, algorithm, bytes);
});
