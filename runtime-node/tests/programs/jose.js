import * as jose from "jose";

const secret = new TextEncoder().encode("a secret of thirty-two bytes, or more");

async function roundTrip(alg) {
  const { publicKey, privateKey } = await jose.generateKeyPair(alg, { extractable: true });
  const token = await new jose.SignJWT({ admin: true }).setProtectedHeader({ alg }).setSubject("ada").setExpirationTime("1h").sign(privateKey);
  const jwk = await jose.exportJWK(publicKey);
  const jwks = jose.createLocalJWKSet({ keys: [{ ...jwk, alg }] });
  const { payload, protectedHeader } = await jose.jwtVerify(token, jwks, { subject: "ada" });
  return protectedHeader.alg === alg && payload.admin === true;
}

async function encrypted(alg, enc, key) {
  const token = await new jose.EncryptJWT({ hidden: 1 }).setProtectedHeader({ alg, enc }).encrypt(key.publicKey ?? key);
  const { payload } = await jose.jwtDecrypt(token, key.privateKey ?? key);
  return payload.hidden === 1;
}

const actions = {
  async sign() {
    const signed = {};
    for (const alg of ["RS256", "PS384", "ES256", "ES384", "ES512", "Ed25519"]) signed[alg] = await roundTrip(alg);
    return signed;
  },
  async hmac() {
    const token = await new jose.SignJWT({ a: 1 }).setProtectedHeader({ alg: "HS256" }).setIssuer("tenon").sign(secret);
    const { payload } = await jose.jwtVerify(token, secret, { issuer: "tenon" });
    const forged = `${token.slice(0, -2)}${token.endsWith("AA") ? "BB" : "AA"}`;
    const refused = await jose.jwtVerify(forged, secret).then(() => "taken", (error) => error.code);
    const other = await jose.jwtVerify(token, secret, { issuer: "else" }).then(() => "taken", (error) => error.code);
    return { payload, refused, other };
  },
  async encrypt() {
    return {
      dir: await encrypted("dir", "A256GCM", crypto.getRandomValues(new Uint8Array(32))),
      cbc: await encrypted("dir", "A128CBC-HS256", crypto.getRandomValues(new Uint8Array(32))),
      kw: await encrypted("A256KW", "A256GCM", crypto.getRandomValues(new Uint8Array(32))),
      oaep: await encrypted("RSA-OAEP-256", "A256GCM", await jose.generateKeyPair("RSA-OAEP-256")),
      ecdh: await encrypted("ECDH-ES+A128KW", "A128GCM", await jose.generateKeyPair("ECDH-ES+A128KW")),
    };
  },
  async pem() {
    const { publicKey, privateKey } = await jose.generateKeyPair("ES256", { extractable: true });
    const [spki, pkcs8] = [await jose.exportSPKI(publicKey), await jose.exportPKCS8(privateKey)];
    const signed = await new jose.CompactSign(new TextEncoder().encode("hi")).setProtectedHeader({ alg: "ES256" }).sign(await jose.importPKCS8(pkcs8, "ES256"));
    const { payload } = await jose.compactVerify(signed, await jose.importSPKI(spki, "ES256"));
    return { text: new TextDecoder().decode(payload), spki: spki.split("\n")[0] };
  },
  async thumbprint() {
    // The example of RFC 7638 §3.1.
    const n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
    return { thumbprint: await jose.calculateJwkThumbprint({ kty: "RSA", e: "AQAB", n }) };
  },
};

export default {
  async fetch(request) {
    return Response.json(await actions[new URL(request.url).pathname.slice(1)]());
  },
};
