// Checks bodies of each type (forms, text, JSON, Blobs), headers, and `data:` URLs.

import { attempt, attemptLater, checker, cut, same, sameBytes, streamOf } from "./check.js";

const types = (boundary) => [
  `multipart/form-data; boundary=${boundary}`, `multipart/form-data;charset=x; boundary="${boundary}"`,
  "application/x-www-form-urlencoded", "text/plain;charset=gbk", boundary,
];

async function listed(form) {
  const entries = [];
  for (const [name, value] of form) {
    entries.push(typeof value === "string" ? [name, value]
      : [name, value.name, value.type || "application/octet-stream", String(new Uint8Array(await value.arrayBuffer()))]);
  }
  return JSON.stringify(entries);
}

// Converts the line ends of names and text to CRLF, as serialization does.
const normal = (entries) => entries.replace(/\\r\\n|\\r|\\n/g, "\\r\\n");

async function form(bytes, type, length) {
  const headers = attempt(() => new Headers({ "content-type": type }));
  if (headers === undefined) return;
  const whole = await attemptLater(() => new Response(bytes, { headers }).formData());
  const pieces = await attemptLater(() => new Response(streamOf(cut(bytes, length)), { headers }).formData());
  same(pieces && await listed(pieces), whole && await listed(whole), "a form in pieces");
  if (whole === undefined) return;
  const entries = await listed(whole);
  // The standard escapes these characters in names, but not the escape character itself.
  if (/%(0A|0D|22)/.test(entries)) return;
  const again = await new Response(whole).formData();
  same(normal(await listed(again)), normal(entries), "a form written and read");
}

function headersOf(text) {
  const headers = new Headers();
  for (const line of text.split("\n").slice(0, 50)) {
    const [name, ...value] = line.split(":");
    attempt(() => headers.append(name, value.join(":")));
    const got = attempt(() => headers.get(name));
    same(attempt(() => headers.has(name)) ?? false, (got ?? null) !== null, `has ${name}`);
  }
  same(JSON.stringify([...new Headers(headers)]), JSON.stringify([...headers]), "headers of headers");
  same(JSON.stringify([...headers].map(([name]) => name)), JSON.stringify([...headers.keys()]), "names");
  same([...headers].filter(([name]) => name === "set-cookie").length, headers.getSetCookie().length, "cookies");
}

async function plain(bytes, type) {
  const init = attempt(() => ({ headers: new Headers({ "content-type": type }) }));
  if (init === undefined) return;
  const response = () => new Response(bytes, init);
  same(await response().text(), new TextDecoder().decode(bytes), "text()");
  const expected = attempt(() => JSON.stringify(JSON.parse(new TextDecoder().decode(bytes))));
  same(await attemptLater(async () => JSON.stringify(await response().json())), expected, "json()");
  const blob = await response().blob();
  sameBytes(new Uint8Array(await blob.arrayBuffer()), bytes, "blob()");
  same(new Blob([], { type: blob.type }).type, /^[ -~]*$/.test(blob.type) ? blob.type.toLowerCase() : "", "type");
  const [one, other] = response().body.tee();
  sameBytes(await new Response(one).bytes(), bytes, "tee()");
  await other.cancel();
}

async function data(text) {
  const response = await attemptLater(() => fetch(`data:${text}`));
  if (response === undefined) return;
  const bytes = await response.bytes();
  const binary = String.fromCharCode(...bytes.subarray(0, 4096));
  const again = await fetch(`data:;base64,${btoa(binary)}`);
  sameBytes(await again.bytes(), bytes, `data:${text}`);
}

export default checker(async (reader) => {
  const [what, length] = [reader.number() % 5, reader.number()];
  const type = reader.pick(types(reader.text()));
  const bytes = reader.rest;
  if (what === 0) return await form(bytes, type, length);
  if (what === 1) return headersOf(new TextDecoder("latin1").decode(bytes));
  if (what === 2) return await plain(bytes, type);
  if (what === 3) return await data(new TextDecoder().decode(bytes));
  return await form(bytes, types("x")[0], length);
});
