// Checks that a serialized URL parses to the same URL, and that search parameters and pattern
// matches are reproducible.

import { attempt, checker, same } from "./check.js";

const PARTS = ["protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash", "href"];

function consistent(url, what) {
  const again = new URL(url.href);
  for (const part of [...PARTS, "origin"]) same(again[part], url[part], `${what}: ${part} of ${url.href}`);
  same(url.href.startsWith(url.protocol), true, what);
  same(url.host, url.port === "" ? url.hostname : `${url.hostname}:${url.port}`, what);
  same(url.href.endsWith(url.search + url.hash) || url.href.endsWith("?") || url.href.endsWith("#") ||
    url.href.endsWith(`?${url.hash}`), true, `${what}: the end of ${url.href}`);
  const special = ["http:", "https:", "ws:", "wss:", "ftp:"].includes(url.protocol);
  if (special) {
    same(url.origin, `${url.protocol}//${url.host}`, what);
    same(url.hostname === "", false, what);
    same(url.pathname[0], "/", what);
  }
  const parameters = [...new URLSearchParams(url.search)];
  same(JSON.stringify([...url.searchParams]), JSON.stringify(parameters), `${what}: parameters of ${url.href}`);
}

export default checker((reader) => {
  const setter = reader.pick(PARTS);
  const [value, base, input] = [reader.text(), reader.text(), new TextDecoder().decode(reader.rest)];

  const parameters = new URLSearchParams(input);
  const written = new URLSearchParams(parameters.toString());
  same(JSON.stringify([...written]), JSON.stringify([...parameters]), "URLSearchParams");
  const has = parameters.has(value);
  parameters.append(value, base);
  same(parameters.getAll(value).at(-1), base.toWellFormed(), "append");
  parameters.delete(value);
  same(parameters.has(value), false, "delete");
  if (!has) same(parameters.toString(), written.toString(), "append and delete");

  for (const from of base === "" ? [undefined] : [undefined, base]) {
    const url = attempt(() => new URL(input, from));
    same(URL.canParse(input, from), url !== undefined, `canParse ${input}`);
    same(URL.parse(input, from)?.href, url?.href, "parse");
    if (url === undefined) continue;
    consistent(url, "parsed");
    attempt(() => { url[setter] = value; });
    consistent(url, `${setter} = ${JSON.stringify(value)}`);
    url.searchParams.append("a", value);
    consistent(url, "one more parameter");

    const pattern = attempt(() => new URLPattern(input, from));
    if (pattern === undefined) continue;
    for (const tried of [url.href, value]) {
      const result = attempt(() => pattern.exec(tried));
      if (result !== undefined) same(attempt(() => pattern.test(tried)), result !== null, `${input} tests ${tried}`);
    }
  }
});
