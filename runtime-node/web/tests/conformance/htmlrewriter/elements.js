// Checks of HTMLRewriter: selectors, elements and end tags.
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

const rewrite = (html, rewriter) => rewriter.transform(new Response(html)).text();

// Rewrites a document with a handler of the elements that a selector matches.
const elements = (html, selector, element) => rewrite(html, new HTMLRewriter().on(selector, { element }));

about("HTMLRewriter");

check("selectors match names, classes, ids, attributes, positions, and combinations of these", async () => {
  const page = "<main id=m><p class='a b' lang=en-US title='x y'>1</p><p>2<b>3</b></p></main><p data-x=Yes>4</p>";
  const matched = async (selector) => {
    const found = [];
    await rewrite(page, new HTMLRewriter().on(selector, { text: ({ text }) => void (text !== "" && found.push(text)) }));
    return found.join("");
  };
  for (const [selector, expected] of Object.entries({
    "*": "1234", p: "1234", P: "1234", "main p": "123", "main > p": "123", "main > b": "", "main b": "3", "#m > p > b": "3",
    ".a": "1", ".a.b": "1", ".c": "", "p[lang]": "1", "[lang=en-US]": "1", "[lang|=en]": "1", "[title~=y]": "1", "[title^=x]": "1",
    "[title$=y]": "1", "[title*=' ']": "1", "[data-x=yes]": "", "[data-x=yes i]": "4", "p:nth-child(2)": "234",
    "p:first-child": "1", "main > p:first-of-type": "1", "p:nth-of-type(2n)": "23", "p:not(.a)": "234", "main p:not([class])": "23",
    "b, .a": "13",
  })) equal(await matched(selector), expected, selector);
});

check("selectors that are malformed or not supported are rejected at once", () => {
  const rewriter = new HTMLRewriter();
  for (const selector of ["", "a >", "a + b", "a ~ b", "a::before", "a:hover", "a:has(b)", "[", "a:nth-last-child(1)", "svg|a", "..a"]) {
    throws("TypeError", () => rewriter.on(selector, {}), "HTMLRewriter");
  }
  throws("TypeError", () => rewriter.on("a".repeat(4097), {}), "4097");
  throws("TypeError", () => rewriter.on(":not(".repeat(65) + "a" + ")".repeat(65), {}), "parentheses");
});

check("content is inserted before and after an element, and at its beginning and end", async () => {
  const html = await elements("<p>x</p>y", "p", (p) => {
    p.before("1").before("2").after("3").after("4").prepend("5").prepend("6").append("7").append("8");
  });
  equal(html, "12<p>65x78</p>43y");
});

check("content is inserted as text unless the options say that it is HTML", async () => {
  const escaped = "&lt;i&gt;&amp;\"'&lt;/i&gt;";
  const html = "<i>&\"'</i>";
  for (const [method, result] of [
    ["before", (content) => `${content}<p>x</p>`], ["after", (content) => `<p>x</p>${content}`],
    ["prepend", (content) => `<p>${content}x</p>`], ["append", (content) => `<p>x${content}</p>`],
    ["replace", (content) => content], ["setInnerContent", (content) => `<p>${content}</p>`],
  ]) {
    for (const options of [undefined, null, {}, { html: false }, { html: undefined }, { html: "" }]) {
      equal(await elements("<p>x</p>", "p", (p) => void p[method](html, options)), result(escaped), method);
    }
    for (const options of [{ html: true }, { html: 1 }]) {
      equal(await elements("<p>x</p>", "p", (p) => void p[method](html, options)), result(html), method);
    }
    equal(await elements("<p>x</p>", "p", (p) => void p[method](null)), result("null"), method);
    await rejects("TypeError", elements("<p>x</p>", "p", (p) => void p[method]()), method);
    await rejects("TypeError", elements("<p>x</p>", "p", (p) => void p[method]("", 1)), "options");
  }
});

check("an element is replaced or removed with its content, or without", async () => {
  const page = "<div>a<p>b<b>c</b></p>d</div>";
  const changed = (change) => elements(page, "p", (p) => {
    equal(p.removed, false);
    equal(change(p), p);
    equal(p.removed, true);
  });
  equal(await changed((p) => p.replace("new").replace("newer")), "<div>anewerd</div>");
  equal(await changed((p) => p.remove()), "<div>ad</div>");
  equal(await changed((p) => p.removeAndKeepContent()), "<div>ab<b>c</b>d</div>");
  equal(await changed((p) => p.before("1").prepend("2").append("3").after("4").remove()), "<div>a14d</div>");
  equal(await changed((p) => p.removeAndKeepContent().prepend("2").append("3")), "<div>a2b<b>c</b>3d</div>");
  equal(await elements(page, "p", (p) => void p.prepend("1").append("2").setInnerContent("3").append("4")), "<div>a<p>34</p>d</div>");
});

check("the handlers within removed content run, and see that elements are removed", async () => {
  const seen = [];
  const html = await rewrite("<div>a<p>b<!--c--></p></div>d", new HTMLRewriter()
    .on("div", { element: (div) => void div.setInnerContent("new") })
    .on("p", {
      element: (p) => void seen.push(p.removed, p.before("1").tagName),
      text: (text) => void seen.push(text.after("2").text),
      comments: (comment) => void seen.push(comment.replace("3").text),
    }));
  equal(html, "<div>new</div>d");
  equal(seen, [true, "p", "b", "", "c"]);
});

check("elements without an end tag have no content", async () => {
  const change = (element) => void element.before("1").prepend("2").append("3").after("4");
  for (const html of ["<br>", "<img src=x>", "<svg><circle/></svg>"]) {
    const [, name] = /(br|img|circle)/.exec(html);
    equal(await elements(html, name, change), html.replace(/<(br|img|circle).*?>/, "1$&4"));
    equal(await elements(html, name, (element) => void element.setInnerContent("x")), html);
    await rejects("TypeError", elements(html, name, (element) => element.onEndTag(() => {})), "end tag");
  }
  equal(await elements("<br>", "br", (br) => void br.replace("x")), "x");
});

check("attributes are read as they are written, without regard to the case of their names", async () => {
  await elements("<p ID='a' Data-X=\"&quot;\" empty e='' n=1>", "p", (p) => {
    equal([p.getAttribute("id"), p.getAttribute("iD"), p.getAttribute("data-x")], ["a", "a", "&quot;"]);
    equal([p.getAttribute("empty"), p.getAttribute("e"), p.getAttribute("n")], ["", "", "1"]);
    equal([p.getAttribute("absent"), p.getAttribute(""), p.getAttribute("a b")], [null, null, null]);
    equal([p.hasAttribute("EMPTY"), p.hasAttribute("absent"), p.hasAttribute(">")], [true, false, false]);
    equal([...p.attributes], [["id", "a"], ["data-x", "&quot;"], ["empty", ""], ["e", ""], ["n", "1"]]);
  });
});

check("changed attributes keep their place, and the other attributes keep their source text", async () => {
  const change = (p) => {
    equal(p.setAttribute("B", "\"<&>'").setAttribute("new", 1).removeAttribute("C").removeAttribute("absent"), p);
    equal([...p.attributes], [["a", "x"], ["b", "\"<&>'"], ["d", ""], ["new", "1"]]);
    equal(p.getAttribute("b"), "\"<&>'");
  };
  equal(await elements("<P A='x'  b = y c=z D>", "p", change), "<P A='x' b=\"&quot;<&>'\" D new=\"1\">");
  equal(await elements("<svg><a b=c/></svg>", "a", (a) => void a.setAttribute("d", "")), "<svg><a b=c/ d=\"\"></svg>");
  equal(await elements("<svg><a b=c /></svg>", "a", (a) => void a.setAttribute("d", "")), "<svg><a b=c d=\"\" /></svg>");
});

check("attributes may change while they are iterated", async () => {
  const html = await elements("<p a=1 b=2 c=3>", "p", (p) => {
    const iterator = p.attributes;
    equal(iterator[Symbol.iterator]() === iterator, true);
    for (const [name, value] of iterator) {
      if (value !== "2") p.removeAttribute(name);
      else p.setAttribute(`${name}${name}`, value);
    }
    equal([iterator.next(), iterator.next()], [{ value: undefined, done: true }, { value: undefined, done: true }]);
    equal([...p.attributes], [["b", "2"], ["bb", "2"]]);
  });
  equal(html, "<p b=2 bb=\"2\">");
});

check("names that would change the structure are rejected", async () => {
  await elements("<p>", "p", (p) => {
    for (const name of ["", "1a", "a b", "a>", "a/", "\u00e9"]) throws("TypeError", () => { p.tagName = name; });
    for (const name of ["", "a b", "a>", "a/", "a=", "a\n"]) throws("TypeError", () => p.setAttribute(name, ""));
    throws("TypeError", () => p.setAttribute("a"));
    throws("TypeError", () => p.getAttribute());
  });
});

check("renaming an element renames both tags", async () => {
  const html = await elements("<P a=b>x<P>y</P></P>", "p", (p) => {
    equal(p.tagName, "p");
    p.tagName = "Section";
    equal(p.tagName, "section");
  });
  equal(html, "<Section a=b>x<Section>y</Section></Section>");
});

check("elements have the namespace of HTML, SVG or MathML", async () => {
  const found = [];
  const page = "<a></a><svg><a /><foreignObject><a></a></foreignObject></svg><math><a /></math>";
  await elements(page, "a", (a) => void found.push(a.namespaceURI));
  equal(found, [
    "http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML",
  ]);
});

check("the handler of an end tag runs when the element ends", async () => {
  const order = [];
  const html = await rewrite("<div><p>a</p>b</div>c", new HTMLRewriter().on("div, p", {
    element(element) {
      const { tagName } = element;
      order.push(tagName);
      equal(element.onEndTag((end) => {
        order.push(`/${end.name}`);
        equal(end.before("1").before("2").after("3").after("4"), end);
      }), undefined);
      element.append("0").after("5");
    },
  }));
  equal(order, ["div", "p", "/p", "/div"]);
  equal(html, "<div><p>a012</p>435b012</div>435c");
});

check("end tags are renamed and removed", async () => {
  const ended = (change) => elements("<p>x</P>", "p", (p) => void p.onEndTag((end) => change(end)));
  equal(await ended((end) => {
    equal(end.name, "p");
    end.name = "Q";
    equal(end.name, "q");
  }), "<p>x</Q>");
  equal(await ended((end) => end.before("1").remove().after("2")), "<p>x12");
  await ended((end) => throws("TypeError", () => { end.name = "a b"; }));
});

check("a later handler of an end tag replaces an earlier one", async () => {
  const called = [];
  await elements("<p></p>", "p", (p) => {
    p.onEndTag(() => void called.push(1));
    p.onEndTag(() => void called.push(2));
    throws("TypeError", () => p.onEndTag());
    throws("TypeError", () => p.onEndTag({}));
  });
  equal(called, [2]);
});

check("an element without an end tag of its own ends with the element around it", async () => {
  const ends = [];
  const change = (element) => {
    const { tagName } = element;
    element.append(`[${tagName}]`).after(`(${tagName})`).onEndTag((end) => void ends.push(tagName, end.name));
  };
  equal(await elements("<ul><li>1<li>2</ul>3", "li", change), "<ul><li>1<li>2[li](li)[li](li)</ul>3");
  equal(ends, ["li", "ul", "li", "ul"]);
  equal(await elements("<div><p>1</div>2", "p", (p) => void p.remove()), "<div></div>2");
  equal(await elements("<div><p>1</div>2", "p", (p) => { p.tagName = "q"; }), "<div><q>1</div>2");
  equal(await elements("<p>1", "p", (p) => void p.append("x")), "<p>1");
});

check("each handler of an element gets an object of its own, and sees the earlier changes", async () => {
  const seen = [];
  const html = await rewrite("<p>", new HTMLRewriter()
    .on("*", { element: (p) => void seen.push(p.setAttribute("a", "1").before("x")) })
    .on("p", { element: (p) => void seen.push(p, p.getAttribute("a")) })
    .on("b", { element: () => void seen.push("never") }));
  equal(html, "x<p a=\"1\">");
  equal([seen.length, seen[0] === seen[1], seen[2]], [3, false, "1"]);
});

check("handlers are called with their object as the receiver", async () => {
  class Handler {
    names = [];
    element({ tagName }) {
      this.names.push(tagName);
    }
  }
  const handler = new Handler();
  await rewrite("<a><b>", new HTMLRewriter().on("a", handler).on("b", handler));
  equal(handler.names, ["a", "b"]);
});
