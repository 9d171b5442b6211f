// Checks of node:crypto: keys as KeyObjects, and their generation.
import crypto, { KeyObject, createHmac, createPrivateKey, createPublicKey, createSecretKey, generateKey, generateKeyPair, generateKeyPairSync, generateKeySync, sign, verify, webcrypto } from "node:crypto";
import { promisify, types } from "node:util";
import { about, check, equal, throws } from "../check.js";
import { RSA_PKCS8 } from "../key-fixtures.js";
export { default } from "../check.js";

about("node:crypto");

// Keys that Node.js and OpenSSL have written, in all of their formats.
const RSA = {
  pkcs8: RSA_PKCS8,
  pkcs1: `-----BEGIN RSA PRIVATE KEY-----
MIIEogIBAAKCAQEAyXNe22sEBUZsP+lG7a6VJwy8GCm3ODvqZGt9GXUGf4Iem51Z
pKh/Go9g4PrF3KqJLfMNaVJEw+dFAoG3qVqbKZdO8z16McuTVA3lm7X28BTLaAVN
n1qiKMr/OAQIIPmoEbdfBBv2L2QKUaYtG8RQVXosiNcSHdzfc78A4eHNQJq9exPm
sEirTs1uCJVLts/sGuqJkFt9+OzPYcxPb0t4B9+r8yIawTjNeLzplBbgGFVIIviT
dOCr7tmzMY7AoF/lov62mOrG0ZOeGNolSLToCN3GOs2YqCo2lz9IcXiWaKMe8/Du
L0srkOQYtW6Gze1lJQYAsDqX9faR+95hH0GJ2wIDAQABAoH/apf1t4AVhoc+/IoQ
KIZMGMzn4cg9fMmpz7Ex9DTC5yvrdILl+aOfLWEat18uMcYCk+Bu3bs/InIjKdGx
0H19kk9AbetbUdhxzoHjX46jhpWXXvM1JK+VJKk6xF2kiX8s6SAx+/NdPwVeKapE
dJ28Dd5glRpsRpLecZ3Y0mQqpofZtdVGEu8kC9bs9WAJPy/Zglwn3ZgYjjCwqqb+
KbisY6XfWwlVl6CBqa2cHANMVfUM6708M/2R/XourSsa6ecqyMCTcrt/IRouLpSR
o2jS2Ad8SDBEsdF8fuZX+bu9rqAMv0+OkpGqoByOLDlL3WnOFxYIyNjdLoT9JC1I
KbGxAoGBAOdqJ/oGeWCBEBQ0nTpaa9IYXdRcGP7SySNy6zd5vA4CPU5r6S10T+PG
0TiHJ3DDI2+rV4rFPf7D+n5GPgGDHxBJQJaxHeyY1pHH6FfY9lZBFxZ7Sw1daYGu
UYKRjhdD7crR6Q0kp5JHcS7Lu58JaWw1hsErhcybOZ4GZ1E4uLbxAoGBAN7aRpGA
zNXKvgLOpS1qvCyrJocZLvi9WUS8x9j7gEQ1Ki3gGGD4B/htd6YVABqDbbbZYK7x
J46DTl4TPRfMWaAYjm98I+/NNKlOaINLoctH0eUc/5Bz3c+0QjDhTJs+cZmxJ+aE
UBHbAP7m0ggDD6HFt/hTDHA/lAtsmvIYm4WLAoGBAMBg/c7apvjVElrZyoOCO/Qy
kX5C+fyNmuy/Uk+SAgXbUr/o8bX55ZhD5haKNP2HG+Rvmp0gkANFRO7I0i9Lo/1U
CD++ClRwUqBqgfrVwSO/hMQJx0DbESTfl59mBavNqtdbXdSxTiVLAwqWD+mMV3m/
ncDkv5xyxplaVXWuI9DhAoGAd3yrZ6qaqWrKVHD+CYr4GC8wOjGbiMzlh0B9Gu9G
h8vFsNE94Qg8Jcxz4b3Sz2R2uBp3h3VP0069/xzrnc34pClmfYofLp1lRf3/dZ5g
wsDgXqscsBQf8xTghJrYW0iw2kotbaC12c0GDKYwKRGTGRcNG/1TZv//3dw+e94L
zR8CgYEAt/9xl/VuY76775/Sit2ITR3w2Gjycmxqav+3jJyHEqd8/UPTJOTYaKHU
aQyKgzZY7lwyfBXdQy1gIG52GHmdSXlw5mZO2q3+efdi6ak8gbtCr0RgYvYZNMfL
YSDxh1qxPqo7Hz/gCPbKbD7JYIkatpNDopfpiSIPRZCe+KK1lOs=
-----END RSA PRIVATE KEY-----
`,
  spki: `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAyXNe22sEBUZsP+lG7a6V
Jwy8GCm3ODvqZGt9GXUGf4Iem51ZpKh/Go9g4PrF3KqJLfMNaVJEw+dFAoG3qVqb
KZdO8z16McuTVA3lm7X28BTLaAVNn1qiKMr/OAQIIPmoEbdfBBv2L2QKUaYtG8RQ
VXosiNcSHdzfc78A4eHNQJq9exPmsEirTs1uCJVLts/sGuqJkFt9+OzPYcxPb0t4
B9+r8yIawTjNeLzplBbgGFVIIviTdOCr7tmzMY7AoF/lov62mOrG0ZOeGNolSLTo
CN3GOs2YqCo2lz9IcXiWaKMe8/DuL0srkOQYtW6Gze1lJQYAsDqX9faR+95hH0GJ
2wIDAQAB
-----END PUBLIC KEY-----
`,
  pkcs1Public: `-----BEGIN RSA PUBLIC KEY-----
MIIBCgKCAQEAyXNe22sEBUZsP+lG7a6VJwy8GCm3ODvqZGt9GXUGf4Iem51ZpKh/
Go9g4PrF3KqJLfMNaVJEw+dFAoG3qVqbKZdO8z16McuTVA3lm7X28BTLaAVNn1qi
KMr/OAQIIPmoEbdfBBv2L2QKUaYtG8RQVXosiNcSHdzfc78A4eHNQJq9exPmsEir
Ts1uCJVLts/sGuqJkFt9+OzPYcxPb0t4B9+r8yIawTjNeLzplBbgGFVIIviTdOCr
7tmzMY7AoF/lov62mOrG0ZOeGNolSLToCN3GOs2YqCo2lz9IcXiWaKMe8/DuL0sr
kOQYtW6Gze1lJQYAsDqX9faR+95hH0GJ2wIDAQAB
-----END RSA PUBLIC KEY-----
`,
};
const P256 = {
  pkcs8: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgEljYlZuK1IOHsXc7
D2W6Nant4318dkvwY5MPjy1GqfqhRANCAATVZguC6OKm+xJ3dL/C5X7IP1/pQiIw
LVHznAbyFqEGVM2n6cfeJauoJgy4W42huW9S3ondayLBu47Wq1/yP786
-----END PRIVATE KEY-----
`,
  sec1: `-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIBJY2JWbitSDh7F3Ow9lujWp7eN9fHZL8GOTD48tRqn6oAoGCCqGSM49
AwEHoUQDQgAE1WYLgujipvsSd3S/wuV+yD9f6UIiMC1R85wG8hahBlTNp+nH3iWr
qCYMuFuNoblvUt6J3WsiwbuO1qtf8j+/Og==
-----END EC PRIVATE KEY-----
`,
  spki: `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE1WYLgujipvsSd3S/wuV+yD9f6UIi
MC1R85wG8hahBlTNp+nH3iWrqCYMuFuNoblvUt6J3WsiwbuO1qtf8j+/Og==
-----END PUBLIC KEY-----
`,
  jwk: {"kty":"EC","x":"1WYLgujipvsSd3S_wuV-yD9f6UIiMC1R85wG8hahBlQ","y":"zafpx94lq6gmDLhbjaG5b1Leid1rIsG7jtarX_I_vzo","crv":"P-256","d":"EljYlZuK1IOHsXc7D2W6Nant4318dkvwY5MPjy1Gqfo"},
  certificate: `-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUPvnUxmps1psWKwTnmYdxEqosjAQwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEaG9zdDAgFw0yNjExMjcwNTA4NDlaGA8yMTI2MTEwMzA1MDg0
OVowDzENMAsGA1UEAwwEaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNVm
C4Lo4qb7End0v8Llfsg/X+lCIjAtUfOcBvIWoQZUzafpx94lq6gmDLhbjaG5b1Le
id1rIsG7jtarX/I/vzqjUzBRMB0GA1UdDgQWBBT7OBkhGzpt1GnkYL/0OAUaJeg4
4DAfBgNVHSMEGDAWgBT7OBkhGzpt1GnkYL/0OAUaJeg44DAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIQCB1Yog0iMYh/2FGKLdyGboXlIqfCxUrL1K
Up3BSHxaLQIgO+UO7eKJtMeb9IERtIYbxTevIwjJd1hqXj/R/3VQN5M=
-----END CERTIFICATE-----
`,
  parameters: `-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIBJY2JWbitSDh7F3Ow9lujWp7eN9fHZL8GOTD48tRqn6oAoGCCqGSM49
AwEHoUQDQgAE1WYLgujipvsSd3S/wuV+yD9f6UIiMC1R85wG8hahBlTNp+nH3iWr
qCYMuFuNoblvUt6J3WsiwbuO1qtf8j+/Og==
-----END EC PRIVATE KEY-----
`,
};
// The key on P-256, encrypted with the passphrase "secret".
const ENCRYPTED = {
  pbkdf2: `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgWjxW5aTKs6wICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEDEDiiU5llV9oBZabTuOST0EgZCc
7tFZ+MTVmnY9dehvXzC6GqGdMyt7/pAw8xIDsb8oH7XVSqfnBN/PKHBsZt/WJkOT
B0rFFs5t+Al45TP/T4aeECaANVrtimeISu1tzsWbGuIK9hgNxfCZA6MmHnxwnTSz
C+VwbsUnC9sedonl8Z6rQWrwzD0VaUzw3fF3gN4xi3c0qvalaCJeJXRraiQAXFs=
-----END ENCRYPTED PRIVATE KEY-----
`,
  scrypt: `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHjME4GCSqGSIb3DQEFDTBBMCAGCSsGAQQB2kcECzATBAjwjxFGn0IQJQIBEAIB
AQIBATAdBglghkgBZQMEASoEEBpxMH3bVSM27YMvsGtuJxoEgZCuR3zAcuzTbKSc
Eb1C2PQ27/e63LFinDp8oP83YzhPyVTQCfvFwETQdIMGJgCUqhrTzrIihpzhFIuR
eB5JKCW/yuy2BzNSjXvj9jh0GuASHGn80vPfXq7yBu9qmgvlV5eSTp6YWbu5+KwP
T3Dc+S1TI4b8DG5vwLjRbSuUQha2yxsX2wyRvwMrE1xhsBiYtuQ=
-----END ENCRYPTED PRIVATE KEY-----
`,
  traditional: `-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-128-CBC,796456EFC1F3A54AD148409BFE539488

XeEvLSBMeKX9HDQEGkY7BBSYizXR1SsF5+6F3CQqrC1q0qeW4nrPQDoYldjcO7E0
MIR9BKYrzo4L3FjfT+105f4BHY095wxexBfWiw6EDRT1C6cOUvm5cUiw/AyUiUQM
YqqARghLcQis7D3W+CPsnaMWkF/J3CYaYV7nGvZpZL8=
-----END EC PRIVATE KEY-----
`,
};
const P384 = {
  pkcs8: `-----BEGIN PRIVATE KEY-----
MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDBjDrvk1PuA5KKvN0Wn
5nGesSow5sF3QFNwAgMmEBaBbg2sEfSX/ABa6Jt/VZm+RaShZANiAARBrFOQxI5V
QcKMLeMNXeYCKAL+1cIN9Wmys0SbTidfgIakFdkvj1ao0zya1+62A1QTlrXBjkoy
RbNryndIVxLqoaFx/IO0/5lZyxKKVCXszV6yV0ZsIDTv4eICPc7d6/I=
-----END PRIVATE KEY-----
`,
  spki: `-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEQaxTkMSOVUHCjC3jDV3mAigC/tXCDfVp
srNEm04nX4CGpBXZL49WqNM8mtfutgNUE5a1wY5KMkWza8p3SFcS6qGhcfyDtP+Z
WcsSilQl7M1esldGbCA07+HiAj3O3evy
-----END PUBLIC KEY-----
`,
  jwk: {"kty":"EC","x":"QaxTkMSOVUHCjC3jDV3mAigC_tXCDfVpsrNEm04nX4CGpBXZL49WqNM8mtfutgNU","y":"E5a1wY5KMkWza8p3SFcS6qGhcfyDtP-ZWcsSilQl7M1esldGbCA07-HiAj3O3evy","crv":"P-384","d":"Yw675NT7gOSirzdFp-ZxnrEqMObBd0BTcAIDJhAWgW4NrBH0l_wAWuibf1WZvkWk"},
};
const ED25519 = {
  pkcs8: `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIDJ7yB3PRGlcEH1nLTpQJ8vuyZV3aaT+2kr7Ln778ORS
-----END PRIVATE KEY-----
`,
  spki: `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA2Y7qFWaZKKKwNkAGJDhXoQD2eC05Ymu9c6IxpoqPeFA=
-----END PUBLIC KEY-----
`,
  jwk: {"crv":"Ed25519","d":"MnvIHc9EaVwQfWctOlAny-7JlXdppP7aSvsufvvw5FI","x":"2Y7qFWaZKKKwNkAGJDhXoQD2eC05Ymu9c6IxpoqPeFA","kty":"OKP"},
};
const X25519 = {
  pkcs8: `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VuBCIEIGiAZ8LVIHkWaIHYPPbjM7/m+N99kfdc6EUuL0Htr8pI
-----END PRIVATE KEY-----
`,
  spki: `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VuAyEA2fOUqVlEryvPTeQoHhGMp7wSMUM7tNto13CKMMvVXXA=
-----END PUBLIC KEY-----
`,
  jwk: {"crv":"X25519","d":"aIBnwtUgeRZogdg89uMzv-b4332R91zoRS4vQe2vykg","x":"2fOUqVlEryvPTeQoHhGMp7wSMUM7tNto13CKMMvVXXA","kty":"OKP"},
};
const PAIRS = { rsa: RSA, p256: P256, p384: P384, ed: ED25519, x: X25519 };

const pem = (key, type, rest = {}) => key.export({ type, format: "pem", ...rest });

check("keys are read from PEM, and written as they were", () => {
  for (const [name, one] of Object.entries(PAIRS)) {
    const privateKey = createPrivateKey(one.pkcs8), publicKey = createPublicKey(one.spki);
    equal([privateKey.type, publicKey.type], ["private", "public"], name);
    equal([pem(privateKey, "pkcs8"), pem(publicKey, "spki")], [one.pkcs8, one.spki], name);
    equal(createPublicKey(privateKey).equals(publicKey), true, name);
    equal(createPublicKey(one.pkcs8).equals(publicKey), true, name);
    equal(privateKey.equals(publicKey), false, name);
    if (one.jwk !== undefined) {
      equal(Object.entries(privateKey.export({ format: "jwk" })).sort(), Object.entries(one.jwk).sort(), name);
      equal(createPrivateKey({ key: one.jwk, format: "jwk" }).equals(privateKey), true, name);
      equal(createPublicKey({ key: one.jwk, format: "jwk" }).equals(publicKey), true, name);
    }
  }
  equal(pem(createPrivateKey(RSA.pkcs1), "pkcs8"), RSA.pkcs8);
  equal([pem(createPrivateKey(RSA.pkcs8), "pkcs1"), pem(createPublicKey(RSA.spki), "pkcs1")], [RSA.pkcs1, RSA.pkcs1Public]);
  equal(createPublicKey(RSA.pkcs1Public).equals(createPublicKey(RSA.spki)), true);
  equal(createPrivateKey({ key: createPrivateKey(RSA.pkcs8).export({ format: "jwk" }), format: "jwk" }).equals(createPrivateKey(RSA.pkcs8)), true);
  equal([pem(createPrivateKey(P256.sec1), "pkcs8"), pem(createPrivateKey(P256.parameters), "sec1")], [P256.pkcs8, P256.sec1]);
});

check("keys are read from DER, bytes and certificates, and from text around PEM", () => {
  const privateKey = createPrivateKey(RSA.pkcs8);
  for (const type of ["pkcs8", "pkcs1"]) {
    const key = privateKey.export({ format: "der", type });
    equal(createPrivateKey({ key, format: "der", type }).equals(privateKey), true, type);
  }
  for (const type of ["spki", "pkcs1"]) {
    const key = createPublicKey(RSA.spki).export({ format: "der", type });
    equal(createPublicKey({ key, format: "der", type }).equals(createPublicKey(RSA.spki)), true, type);
  }
  const sec1 = createPrivateKey(P256.sec1).export({ format: "der", type: "sec1" });
  equal(createPrivateKey({ key: sec1, format: "der", type: "sec1" }).equals(createPrivateKey(P256.pkcs8)), true);
  equal(createPublicKey(P256.certificate).equals(createPublicKey(P256.spki)), true);
  equal(createPublicKey(Buffer.from(P256.spki)).equals(createPublicKey({ key: `a text\n${P256.spki}` })), true);
  equal(createPrivateKey(P256.pkcs8.replaceAll("\n", "\r\n")).equals(createPrivateKey(P256.pkcs8)), true);
});

check("encrypted keys are read and written with their passphrase", () => {
  const expected = createPrivateKey(P256.pkcs8);
  for (const [name, key] of Object.entries(ENCRYPTED)) {
    equal(createPrivateKey({ key, passphrase: "secret" }).equals(expected), true, name);
    equal(throws("TypeError", () => createPrivateKey(key)).code, "ERR_MISSING_PASSPHRASE", name);
    // The wrong passphrase yields wrong padding, or bytes that are not a key.
    throws("Error", () => createPrivateKey({ key, passphrase: "other" }));
  }
  for (const cipher of ["aes-128-cbc", "aes-192-cbc", "AES-256-CBC"]) {
    const key = pem(expected, "pkcs8", { cipher, passphrase: "secret" });
    equal(key.startsWith("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"), true);
    equal(createPrivateKey({ key, passphrase: Buffer.from("secret") }).equals(expected), true, cipher);
  }
  const der = expected.export({ format: "der", type: "pkcs8", cipher: "aes-256-cbc", passphrase: "secret" });
  equal(createPrivateKey({ key: der, format: "der", type: "pkcs8", passphrase: "secret" }).equals(expected), true);
  throws("Error", () => pem(expected, "sec1", { cipher: "aes-256-cbc", passphrase: "a" }));
  throws("Error", () => pem(expected, "pkcs8", { cipher: "rot13", passphrase: "a" }));
});

check("a KeyObject describes its key", () => {
  const details = (key) => {
    const { asymmetricKeyDetails, asymmetricKeyType, symmetricKeySize, type } = key;
    return [type, asymmetricKeyType, Object.entries(asymmetricKeyDetails ?? {}).map(([name, value]) => `${name}=${value}`), symmetricKeySize];
  };
  equal(details(createPublicKey(RSA.spki)), ["public", "rsa", ["modulusLength=2048", "publicExponent=65537"], undefined]);
  equal(details(createPrivateKey(P256.pkcs8)), ["private", "ec", ["namedCurve=prime256v1"], undefined]);
  equal(details(createPrivateKey(P384.pkcs8)), ["private", "ec", ["namedCurve=secp384r1"], undefined]);
  equal(details(createPrivateKey(ED25519.pkcs8)), ["private", "ed25519", [], undefined]);
  equal(details(createPublicKey(X25519.spki)), ["public", "x25519", [], undefined]);
  equal(details(createSecretKey(Buffer.alloc(7))), ["secret", undefined, [], 7]);
  const key = createSecretKey("abc", "utf8");
  equal([key instanceof KeyObject, types.isKeyObject(key), types.isKeyObject({ type: "secret" }), Object.prototype.toString.call(key)], [true, true, false, "[object KeyObject]"]);
  equal([key.export().toString(), key.export({ format: "jwk" }).k, createSecretKey(Buffer.from("abc")).equals(key)], ["abc", "YWJj", true]);
  equal(createSecretKey(Buffer.from("abd")).equals(key), false);
});

check("a secret key can be the key of an HMAC", () => {
  const expected = createHmac("sha256", "a key").update("x").digest("hex");
  equal(createHmac("sha256", createSecretKey(Buffer.from("a key"))).update("x").digest("hex"), expected);
  throws("TypeError", () => createHmac("sha256", createPublicKey(RSA.spki)));
});

check("keys are exchanged with Web Crypto", async () => {
  const { subtle } = webcrypto;
  const data = Buffer.from("data");
  const ec = createPrivateKey(P256.pkcs8);
  const web = ec.toCryptoKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign"]);
  const signature = Buffer.from(await subtle.sign({ name: "ECDSA", hash: "SHA-256" }, web, data));
  equal(verify("sha256", data, { key: createPublicKey(ec), dsaEncoding: "ieee-p1363" }, signature), true);
  const verifying = createPublicKey(RSA.spki).toCryptoKey({ name: "RSASSA-PKCS1-v1_5", hash: "SHA-512" }, true, ["verify"]);
  equal(await subtle.verify("RSASSA-PKCS1-v1_5", verifying, sign("sha512", data, RSA.pkcs8), data), true);
  const hmac = createSecretKey(data).toCryptoKey({ name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  equal(Buffer.from(await subtle.sign("HMAC", hmac, data)).toString("hex"), createHmac("sha256", "data").update("data").digest("hex"));

  equal(KeyObject.from(web).equals(ec), true);
  equal(createHmac("sha256", hmac).update("data").digest("hex"), createHmac("sha256", "data").update("data").digest("hex"));
  throws("Error", () => KeyObject.from(hmac).export(), "not extractable");
  throws("SyntaxError", () => ec.toCryptoKey({ name: "ECDSA", namedCurve: "P-256" }, true, []));
  throws("TypeError", () => KeyObject.from({}));
});

check("keys are generated, and encoded if that is requested", async () => {
  equal([generateKeySync("aes", { length: 192 }).symmetricKeySize, generateKeySync("hmac", { length: 100 }).symmetricKeySize], [24, 12]);
  equal((await promisify(generateKey)("hmac", { length: 64 })).type, "secret");
  for (const [type, options] of [["ec", { namedCurve: "secp521r1" }], ["ed25519", undefined]]) {
    const { privateKey, publicKey } = generateKeyPairSync(type, options);
    equal([privateKey.type, publicKey.type, publicKey.asymmetricKeyType], ["private", "public", type]);
    const hash = type === "ec" ? "sha512" : null;
    equal(verify(hash, Buffer.from("a"), publicKey, sign(hash, Buffer.from("a"), privateKey)), true, type);
  }
  const encodings = {
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "secret" },
  };
  const made = await new Promise((resolve, reject) => {
    generateKeyPair("rsa", { modulusLength: 2048, ...encodings }, (error, ...keys) => (error ? reject(error) : resolve(keys)));
  });
  equal(createPublicKey({ key: made[1], passphrase: "secret" }).equals(createPublicKey(made[0])), true);
  equal(generateKeyPairSync("rsa", { modulusLength: 2048, publicExponent: 3 }).publicKey.asymmetricKeyDetails.publicExponent, 3n);
  const { privateKey, publicKey } = await promisify(generateKeyPair)("x25519");
  equal(createPublicKey(privateKey).equals(publicKey), true);
});

check("invalid keys and options are refused", () => {
  throws("Error", () => createPublicKey("no key"), "unsupported");
  throws("Error", () => createPrivateKey(RSA.spki), "unsupported");
  throws("Error", () => createPublicKey(RSA.spki.replace("MIIB", "MIIC")));
  throws("Error", () => createPublicKey("-----BEGIN PUBLIC KEY-----"));
  throws("Error", () => createPublicKey(`-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n`));
  throws("TypeError", () => createPublicKey({ key: Buffer.alloc(3), format: "der" }));
  throws("TypeError", () => createPublicKey({ key: "", format: "xml" }));
  equal(throws("TypeError", () => createPublicKey(createPublicKey(RSA.spki))).code, "ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE");
  equal(throws("TypeError", () => createPrivateKey(createPrivateKey(RSA.pkcs8))).code, "ERR_INVALID_ARG_TYPE");
  throws("TypeError", () => createSecretKey(5));
  throws("TypeError", () => new KeyObject("secret", {}));
  throws("TypeError", () => createPrivateKey(RSA.pkcs8).export());
  throws("Error", () => createPrivateKey(ED25519.pkcs8).export({ format: "pem", type: "pkcs1" }));
  throws("Error", () => createPrivateKey(RSA.pkcs8).export({ format: "pem", type: "sec1" }));
  throws("TypeError", () => createPublicKey({ key: { kty: "EC", crv: "P-257" }, format: "jwk" }));
  throws("RangeError", () => generateKeyPairSync("rsa", { modulusLength: 1024 }));
  throws("RangeError", () => generateKeyPairSync("rsa", { modulusLength: 16384 }));
  throws("TypeError", () => generateKeyPairSync("ec", { namedCurve: "secp256k1" }), "curve");
  throws("TypeError", () => generateKeyPairSync("rot13"));
  equal(throws("Error", () => generateKeyPairSync("dsa")).code, "ERR_METHOD_NOT_IMPLEMENTED");
  equal(throws("Error", () => new crypto.X509Certificate(P256.certificate)).code, "ERR_METHOD_NOT_IMPLEMENTED");
});
