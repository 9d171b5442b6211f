import { createClerkClient, verifyToken } from "@clerk/backend";
import { SignJWT, exportSPKI, generateKeyPair } from "jose";

const sign = async (claims, { privateKey }) =>
  new SignJWT(claims)
    .setProtectedHeader({ alg: "RS256", kid: "key", typ: "JWT" })
    .setIssuer("https://clerk.example.com")
    .setSubject("user_1")
    .setIssuedAt()
    .setExpirationTime("1m")
    .sign(privateKey);

export default {
  async fetch(request, env) {
    // The key pair that Clerk's service would have.
    const pair = await generateKeyPair("RS256", { extractable: true });
    const jwtKey = await exportSPKI(pair.publicKey);
    const clerk = createClerkClient({ secretKey: "sk_test_key", publishableKey: `pk_test_${btoa("clerk.example.com$")}`, apiUrl: env.ORIGIN });
    const { pathname } = new URL(request.url);
    if (pathname === "/user") {
      const { id, firstName } = await clerk.users.getUser("user_1");
      return Response.json({ id, firstName });
    }
    const token = pathname === "/session" ? await sign({ sid: "sess_1", v: 2 }, pair) : "a.b.c";
    try {
      const { sub, sid } = await verifyToken(token, { jwtKey });
      return Response.json({ sub, sid });
    } catch (error) {
      return Response.json({ reason: error.reason }, { status: 401 });
    }
  },
};
