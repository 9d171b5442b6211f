// Checks that handlers that change nothing leave a document as it is, and that a changed document
// depends neither on the pieces in which the original arrives nor on handlers that wait.

import { attempt, attemptLater, checker, cut, same, sameBytes, streamOf } from "./check.js";

const SELECTORS = ["*", "p", "a[b]", ".c > d", "p:first-of-type", ":not(p) a", "svg *"];
const ENCODINGS = ["utf-8", "windows-1252", "shift_jis", "gbk"];
const CONTENT = ["", "x", "<i>\u00e9</i>", "&\u20ac"];
const PLACES = ["before", "after", "prepend", "append", "replace", "setInnerContent"];
// Valid attribute names that have the same bytes in each encoding.
const NAME = /^[!-.0-<?-~]+$/;

// Applies to a token one change for each of the numbers.
function change(token, numbers) {
  for (const number of numbers) {
    const content = CONTENT[(number >> 4) % CONTENT.length];
    const place = PLACES[number % 8];
    if (place !== undefined) token[place]?.(content, { html: (number & 64) === 64 });
    else if (number % 16 === 6) token.remove();
    else if (number % 16 === 14) token.removeAndKeepContent?.();
    else attempt(() => token.setAttribute?.(content, content));
  }
}

// Rewrites a document. The handlers wait if `waits` is set.
function rewritten(document, encoding, selectors, changes, waits) {
  let count = 0;
  const next = () => changes[count++ % changes.length];
  const handler = (handle) => (waits ? async (token) => { await null; handle(token); } : handle);
  const rewriter = new HTMLRewriter().onDocument({ end: handler((end) => change(end, [3])) });
  for (const selector of selectors) {
    rewriter.on(selector, {
      element: handler((element) => {
        const numbers = next();
        same(/[A-Z]/.test(element.tagName), false, element.tagName);
        for (const [name, value] of element.attributes) {
          same(typeof value, "string", name);
          if (NAME.test(name)) same(element.hasAttribute(name), true, `hasAttribute ${name}`);
        }
        change(element, numbers);
        attempt(() => element.onEndTag(handler((end) => change(end, numbers.map((number) => number & 113)))));
      }),
      comments: handler((comment) => change(comment, next())),
    });
  }
  const headers = { "content-type": `text/html;charset=${encoding}` };
  return attemptLater(() => rewriter.transform(new Response(document, { headers })).bytes());
}

export default checker(async (reader) => {
  const [encoding, length, custom] = [reader.pick(ENCODINGS), reader.number(), reader.text()];
  const selectors = [reader.pick(SELECTORS), reader.pick(SELECTORS)];
  if (attempt(() => new HTMLRewriter().on(custom, {})) !== undefined) selectors.push(custom);
  const changes = [[...reader.bytes()].slice(0, 8), [...reader.bytes()].slice(0, 8)];
  const bytes = reader.rest;

  const untouched = new HTMLRewriter().on("*", { element() {}, comments() {} }).onDocument({ doctype() {}, end() {} });
  const copy = await attemptLater(() => untouched.transform(new Response(bytes.slice())).bytes());
  if (copy !== undefined) sameBytes(copy, bytes, "unchanged");

  const whole = await rewritten(bytes.slice(), encoding, selectors, changes, false);
  const pieces = await rewritten(streamOf(cut(bytes, length)), encoding, selectors, changes, true);
  sameBytes(pieces, whole, `in pieces of ${length}`);
});
