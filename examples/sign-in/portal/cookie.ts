const ALPHABET = { alphabet: "base64url", omitPadding: true } as const;

/**
 * Returns the content of a `Set-Cookie` header. Only this Worker can have written the value of the
 * cookie, but anyone who has the cookie can read it.
 *
 * @param seconds the lifetime; the signature covers it, so a copied cookie expires as well
 */
export async function seal(name: string, value: object, seconds: number, secret: string): Promise<string> {
  const expires = Date.now() + seconds * 1000;
  const text = new TextEncoder().encode(JSON.stringify({ name, value, expires }));
  const signature = new Uint8Array(await crypto.subtle.sign("HMAC", await key(secret), text));
  const content = `${text.toBase64(ALPHABET)}.${signature.toBase64(ALPHABET)}`;
  return `${name}=${content}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax`;
}

/** Returns the value of a cookie, or undefined if it is missing, forged or too old. */
export async function unseal<T>(request: Request, name: string, secret: string): Promise<T | undefined> {
  const cookies = (request.headers.get("cookie") ?? "").split("; ");
  const content = cookies.find((cookie) => cookie.startsWith(`${name}=`))?.slice(name.length + 1);
  try {
    const [text, signature] = (content ?? "").split(".").map((part) => Uint8Array.fromBase64(part, ALPHABET));
    if (!(await crypto.subtle.verify("HMAC", await key(secret), signature, text))) return undefined;
    const sealed = JSON.parse(new TextDecoder().decode(text));
    // The name is signed as well, so that one cookie cannot stand in for another.
    return sealed.name === name && sealed.expires > Date.now() ? sealed.value : undefined;
  } catch {
    return undefined;
  }
}

function key(secret: string): Promise<CryptoKey> {
  const bytes = new TextEncoder().encode(secret);
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}
