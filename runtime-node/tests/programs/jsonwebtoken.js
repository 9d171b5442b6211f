import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { promisify } from "node:util";
import jwt from "jsonwebtoken";

const sign = promisify(jwt.sign);
const verify = promisify(jwt.verify);

const pem = { publicKeyEncoding: { type: "spki", format: "pem" }, privateKeyEncoding: { type: "pkcs8", format: "pem" } };
const RSA = generateKeyPairSync("rsa", { modulusLength: 2048, ...pem });
const P256 = generateKeyPairSync("ec", { namedCurve: "P-256", ...pem });
const P521 = generateKeyPairSync("ec", { namedCurve: "P-521" });
const KEYS = {
  HS256: ["a secret", "a secret"], HS512: ["a secret", Buffer.from("a secret")],
  RS256: [RSA.privateKey, RSA.publicKey], RS512: [RSA.privateKey, createPublicKey(RSA.publicKey)], PS256: [RSA.privateKey, RSA.publicKey],
  ES256: [P256.privateKey, P256.publicKey], ES512: [P521.privateKey, P521.publicKey],
};

const actions = {
  async sign() {
    const results = {};
    for (const [algorithm, [signing, verifying]] of Object.entries(KEYS)) {
      const token = await sign({ admin: true }, signing, { algorithm, subject: "ada", expiresIn: "1h" });
      const { admin, sub } = jwt.verify(token, verifying, { algorithms: [algorithm] });
      results[algorithm] = [admin, sub, (await verify(token, verifying)).admin];
    }
    return results;
  },
  async refuse() {
    const token = jwt.sign({ a: 1 }, RSA.privateKey, { algorithm: "RS256" });
    const refusal = (...given) => verify(...given).then(() => "taken", (error) => error.message);
    return {
      changed: await refusal(`${token.slice(0, -8)}${token.endsWith("A") ? "B" : "A"}${token.slice(-7)}`, RSA.publicKey),
      key: await refusal(token, P256.publicKey),
      confusion: await refusal(jwt.sign({}, "key"), RSA.publicKey),
      expired: await refusal(jwt.sign({ exp: 1 }, "key"), "key"),
    };
  },
  // The token of RFC 7515 §A.1.
  async known() {
    const key = Buffer.from("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow", "base64url");
    const token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    return jwt.verify(token, key, { ignoreExpiration: true });
  },
};

export default {
  async fetch(request) {
    return Response.json(await actions[new URL(request.url).pathname.slice(1)]());
  },
};
