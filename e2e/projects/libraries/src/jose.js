import { SignJWT, compactDecrypt, CompactEncrypt, createLocalJWKSet, exportJWK, generateKeyPair, jwtVerify } from "jose";

const ALGORITHMS = ["ES256", "EdDSA", "RS256"];

export default {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/encrypt") {
      const key = new Uint8Array(32).fill(7);
      const sealed = await new CompactEncrypt(new TextEncoder().encode("a secret")).setProtectedHeader({ alg: "dir", enc: "A256GCM" }).encrypt(key);
      const { plaintext } = await compactDecrypt(sealed, key);
      return Response.json({ parts: sealed.split(".").length, text: new TextDecoder().decode(plaintext) });
    }
    const alg = pathname.slice(1);
    if (!ALGORITHMS.includes(alg)) return Response.json({ error: "no such algorithm" }, { status: 404 });
    const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
    const jwks = createLocalJWKSet({ keys: [{ ...(await exportJWK(publicKey)), alg, kid: "1" }] });
    const token = await new SignJWT({ role: "reader" }).setProtectedHeader({ alg, kid: "1" }).setExpirationTime("1m").sign(privateKey);
    const sent = searchParams.has("forged") ? `${token.slice(0, -8)}AAAAAAAA` : token;
    try {
      return Response.json((await jwtVerify(sent, jwks)).payload.role);
    } catch (error) {
      return Response.json({ code: error.code }, { status: 401 });
    }
  },
};
