// Checks of HTMLRewriter: comments, text, documents, and encodings.
import { about, check, equal, logs, throws } from "../check.js";
export { default } from "../check.js";

const rewrite = (html, rewriter, init = undefined) => rewriter.transform(new Response(html, init)).text();
const bytes = (...parts) => new Blob(parts).arrayBuffer();

about("HTMLRewriter");

check("comments are read, changed, replaced and removed", async () => {
  const page = "<p><!-- a --><!--b--><!----></p><!--c-->";
  const seen = [];
  equal(await rewrite(page, new HTMLRewriter().on("p", { comments: ({ text }) => void seen.push(text) })), page);
  equal(seen, [" a ", "b", ""]);
  const changed = (comments) => rewrite("<p><!--x--></p>", new HTMLRewriter().on("p", { comments }));
  equal(await changed((comment) => {
    comment.text = "<new>";
    equal([comment.text, comment.removed], ["<new>", false]);
  }), "<p><!--<new>--></p>");
  equal(await changed((comment) => {
    equal(comment.before("<1>").before("2").after("<3>", { html: true }).after("4"), comment);
  }), "<p>&lt;1&gt;2<!--x-->4<3></p>");
  equal(await changed((comment) => {
    equal(comment.replace("1").replace("<2>"), comment);
    equal(comment.removed, true);
  }), "<p>&lt;2&gt;</p>");
  equal(await changed((comment) => void comment.remove()), "<p></p>");
  await changed((comment) => {
    for (const text of ["-->", "a--!>", ">", "->"]) throws("TypeError", () => { comment.text = text; });
  });
});

check("markup that HTML treats as a comment is read as one", async () => {
  const seen = [];
  const page = "<?xml version='1'?><!x></ y><!-->";
  equal(await rewrite(page, new HTMLRewriter().onDocument({ comments: ({ text }) => void seen.push(text) })), page);
  equal(seen, ["?xml version='1'?", "x", " y", ""]);
});

check("a text node is a sequence of chunks, the last of which is marked and may be empty", async () => {
  const nodes = [];
  let text = "";
  await rewrite("<p>one<b>two</b>&amp;</p>x", new HTMLRewriter().on("p", {
    text(chunk) {
      text += chunk.text;
      if (!chunk.lastInTextNode) return;
      nodes.push(text);
      text = "";
    },
  }));
  equal(nodes, ["one", "two", "&amp;"]);
});

check("text is inserted around a chunk, or replaces it", async () => {
  const changed = (change) => rewrite("<p>x<b></b></p>", new HTMLRewriter().on("p", {
    text(chunk) {
      if (!chunk.lastInTextNode) change(chunk);
    },
  }));
  equal(await changed((text) => void text.before("<1>").before("2").after("<3>", { html: true }).after("4")), "<p>&lt;1&gt;2x4<3><b></b></p>");
  equal(await changed((text) => {
    equal([text.removed, text.replace("<i>", { html: true }).removed], [false, true]);
  }), "<p><i><b></b></p>");
  equal(await changed((text) => void text.remove()), "<p><b></b></p>");
});

check("scripts, styles and text areas are text", async () => {
  const seen = [];
  const page = "<script>a<b></script><style>c</style><textarea><d></textarea><title>&lt;</title>";
  const rewriter = new HTMLRewriter().on("*", { element: ({ tagName }) => void seen.push(tagName, ":"), text: ({ text }) => void seen.push(text) });
  equal(await rewrite(page, rewriter), page);
  equal(seen.join(""), "script:a<b>style:ctextarea:<d>title:&lt;");
});

check("handlers of a document receive its doctype, comments, text and end", async () => {
  const seen = [];
  const page = "<!DOCTYPE html PUBLIC \"p\" \"s\"><!--a-->b<p>c<!--d--></p>";
  const html = await rewrite(page, new HTMLRewriter().onDocument({
    doctype: ({ name, publicId, systemId }) => void seen.push([name, publicId, systemId]),
    comments: ({ text }) => void seen.push(text),
    text: ({ text }) => void (text && seen.push(text)),
    end: (end) => {
      equal(end.append("<1>").append("<2>", { html: true }), end);
      seen.push("end");
    },
  }));
  equal(html, `${page}&lt;1&gt;<2>`);
  equal(seen, [["html", "p", "s"], "a", "b", "c", "d", "end"]);
  const types = [];
  await rewrite("<!doctype HTML><!doctype>", new HTMLRewriter().onDocument({
    doctype: ({ name, publicId, systemId }) => void types.push(name, publicId, systemId),
  }));
  equal(types, ["html", null, null, null, null, null]);
  equal(await rewrite("", new HTMLRewriter().onDocument({ end: (end) => void end.append("x") })), "x");
});

check("the handlers of selectors run before those of the document, in the order of registration", async () => {
  const seen = [];
  const text = (name) => ({ text: ({ lastInTextNode }) => void (lastInTextNode || seen.push(name)) });
  await rewrite("<p>x</p>", new HTMLRewriter().onDocument(text("1")).on("p", text("2")).onDocument(text("3")).on("*", text("4")));
  equal(seen, ["2", "4", "1", "3"]);
});

check("a token cannot be used once its handler has ended", async () => {
  const kept = [];
  const keep = (token) => void kept.push(token);
  await rewrite("<!doctype html><p><!--a-->b</p>", new HTMLRewriter()
    .on("p", {
      element(p) {
        kept.push(p, p.attributes);
        p.onEndTag(keep);
      },
      comments: keep,
      text: keep,
    })
    .on("p", { element: () => throws("TypeError", () => kept[1].tagName, "handler has ended") })
    .onDocument({ doctype: keep, end: keep }));
  equal(kept.length, 8);
  const [doctype, element, attributes, comment, text, , endTag, end] = kept;
  for (const use of [
    () => doctype.name, () => element.tagName, () => { element.tagName = "a"; }, () => element.removed, () => element.before("x"),
    () => element.getAttribute("a"), () => element.setAttribute("a", "b"), () => element.attributes, () => element.onEndTag(keep),
    () => element.remove(), () => element.namespaceURI, () => attributes.next(), () => comment.text, () => { comment.text = "a"; },
    () => comment.remove(), () => text.text, () => text.lastInTextNode, () => text.replace("x"), () => endTag.name,
    () => endTag.before("x"), () => end.append("x"),
  ]) throws("TypeError", use, "handler has ended");
});

check("tokens cannot be constructed, and their methods reject other receivers", async () => {
  await rewrite("<p><!--x-->", new HTMLRewriter().on("p", {
    element(p) {
      throws("TypeError", () => new p.constructor());
      throws("TypeError", () => new p.constructor({}, { token: null }));
      for (const other of [{}, Object.create(p), undefined]) throws("TypeError", () => p.getAttribute.call(other, "a"));
      equal(Object.prototype.toString.call(p), "[object Element]");
    },
    comments(comment) {
      equal(Object.prototype.toString.call(comment), "[object Comment]");
    },
  }));
});

check("documents are read and written in the encoding that their content type names", async () => {
  const latin = new Uint8Array([0x3c, 0x70, 0x20, 0x61, 0x3d, 0xe4, 0x3e, 0xfc, 0x3c, 0x2f, 0x70, 0x3e]); // <p a=ä>ü</p>
  for (const type of ["text/html; charset=iso-8859-1", "text/html;charset=\"latin1\"", "text/html; charset=windows-1252"]) {
    const seen = [];
    const response = new HTMLRewriter().on("p", {
      element: (p) => void seen.push(p.setAttribute("b", "\u00f6").append("\u20ac\u0436").getAttribute("a")),
      text: ({ text }) => void (text && seen.push(text)),
    }).transform(new Response(latin, { headers: { "content-type": type } }));
    equal(seen, []);
    const out = new Uint8Array(await response.arrayBuffer());
    equal(seen, ["\u00e4", "\u00fc"]);
    equal(new TextDecoder("latin1").decode(out), "<p a=\u00e4 b=\"\u00f6\">\u00fc\u20ac&#1078;</p>");
  }
  const shift = await bytes("<p>", new Uint8Array([0x83, 0x5c]), "</p>"); // ソ in Shift_JIS; its second byte is a backslash
  const init = { headers: { "content-type": "text/html; charset=Shift_JIS" } };
  const rewriter = new HTMLRewriter().on("p", { text: (chunk) => void chunk.before(chunk.text) });
  const out = await rewriter.transform(new Response(shift, init)).arrayBuffer();
  equal(new TextDecoder("shift_jis").decode(out), "<p>\u30bd\u30bd</p>");
});

check("an encoding that is unknown or not compatible with ASCII is rejected", async () => {
  for (const charset of ["nonsense", "utf-16", "utf-16be", "iso-2022-jp", "replacement"]) {
    const response = new Response("x", { headers: { "content-type": `text/html; charset=${charset}` } });
    throws("TypeError", () => new HTMLRewriter().transform(response), "HTMLRewriter");
    equal(response.bodyUsed, false);
  }
  equal(await rewrite("x", new HTMLRewriter(), { headers: { "content-type": "image/png" } }), "x");
  equal(await rewrite("x", new HTMLRewriter(), { headers: { "content-type": "nonsense" } }), "x");
});

check("malformed bytes pass unchanged unless they are in text that has handlers", async () => {
  const page = await bytes("<a>", new Uint8Array([0xff]), "</a><b>", new Uint8Array([0xff, 0xe2, 0x82]), "</b>");
  const out = await new HTMLRewriter().on("b", { text() {} }).transform(new Response(page)).arrayBuffer();
  const expected = await bytes("<a>", new Uint8Array([0xff]), "</a><b>\ufffd\ufffd</b>");
  equal(new Uint8Array(out), new Uint8Array(expected));
});

check("console shows tokens as long as they can be used", async () => {
  let kept;
  const element = (p) => {
    kept = p;
    logs("INFO", "Element { tagName: 'p', namespaceURI: 'http://www.w3.org/1999/xhtml' }", () => console.log(p));
  };
  const comments = (comment) => logs("INFO", "Comment { text: 'x' }", () => console.log(comment));
  await rewrite("<p><!--x-->", new HTMLRewriter().on("p", { element, comments }));
  logs("INFO", "Element {} HTMLRewriter {}", () => console.log(kept, new HTMLRewriter()));
});
