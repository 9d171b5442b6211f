// Checks of URL and URLSearchParams (URL §6).
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

const parts = (url) => [url.protocol, url.username, url.password, url.hostname, url.port, url.pathname, url.search, url.hash];

about("URL");

check("every part of a URL can be read", () => {
  const url = new URL("https://user:pass@example.com:8080/a/b?x=1#frag");
  equal(parts(url), ["https:", "user", "pass", "example.com", "8080", "/a/b", "?x=1", "#frag"]);
  equal(url.host, "example.com:8080");
  equal(url.origin, "https://example.com:8080");
  equal(url.href, "https://user:pass@example.com:8080/a/b?x=1#frag");
  equal(`${url}`, url.href);
  equal(JSON.stringify({ url }), `{"url":"${url.href}"}`);
});

check("missing parts are empty", () => {
  equal(parts(new URL("http://h")), ["http:", "", "", "h", "", "/", "", ""]);
  equal(parts(new URL("http://h/?#")), ["http:", "", "", "h", "", "/", "", ""]);
  equal(new URL("http://h/?#").href, "http://h/?#");
  equal(parts(new URL("mailto:a@b.c")), ["mailto:", "", "", "", "", "a@b.c", "", ""]);
  equal(parts(new URL("http://u@h/")), ["http:", "u", "", "h", "", "/", "", ""]);
});

check("a URL is normalized", () => {
  equal(new URL("HTTP://EXAMPLE.com:80/a/../b/./c d").href, "http://example.com/b/c%20d");
  equal(new URL("https://bücher.example/ü?ü#ü").href, "https://xn--bcher-kva.example/%C3%BC?%C3%BC#%C3%BC");
  equal(new URL("http://0x7f.1/").hostname, "127.0.0.1");
  equal(new URL("http://[::0001]/").host, "[::1]");
  equal(new URL("  http://h/\t\n ").href, "http://h/");
});

check("a relative URL is resolved against its base", () => {
  equal(new URL("../x?y", "https://h/a/b/c").href, "https://h/a/x?y");
  equal(new URL("//other/p", "https://h/a").href, "https://other/p");
  equal(new URL("", new URL("https://h/a?b#c")).href, "https://h/a?b");
});

check("invalid URLs are rejected", () => {
  throws("TypeError", () => new URL("nonsense"), "nonsense");
  throws("TypeError", () => new URL("/path"));
  throws("TypeError", () => new URL("http://"));
  throws("TypeError", () => new URL("x", "y"));
  throws("TypeError", () => new URL());
  throws("TypeError", () => URL("http://h"));
  equal(URL.canParse("nonsense"), false);
  equal(URL.canParse("a", "http://h"), true);
  equal(URL.parse("nonsense"), null);
  equal(URL.parse("../x", "https://h/a/b/c").href, "https://h/a/x");
});

check("origins are those of the scheme", () => {
  equal(new URL("ftp://h:21/").origin, "ftp://h");
  equal(new URL("blob:https://h:1/x").origin, "https://h:1");
  equal(new URL("blob:d3958f5c").origin, "null");
  equal(new URL("file:///x").origin, "null");
  equal(new URL("data:,x").origin, "null");
});

check("every part can be set", () => {
  const url = new URL("https://h/p");
  url.protocol = "http";
  url.username = "u ser";
  url.password = "p";
  url.hostname = "EXAMPLE.org";
  url.port = "99";
  url.pathname = "a b";
  url.search = "q=ü";
  url.hash = "f";
  equal(url.href, "http://u%20ser:p@example.org:99/a%20b?q=%C3%BC#f");
  url.host = "x:1";
  equal(url.host, "x:1");
  url.port = "";
  url.search = "";
  url.hash = "";
  url.username = "";
  url.password = "";
  equal(url.href, "http://x/a%20b");
  url.href = "https://other/";
  equal(url.href, "https://other/");
});

check("an invalid value is ignored, except by href", () => {
  const url = new URL("https://h:8/");
  url.protocol = "mailto";
  url.port = "x";
  url.host = "";
  equal(url.href, "https://h:8/");
  throws("TypeError", () => { url.href = "nonsense"; });
  equal(url.href, "https://h:8/");
});

check("a port that is set ends at the first character that is not a digit", () => {
  const url = new URL("https://h:8/");
  url.port = "90a";
  equal(url.port, "90");
  url.port = "443";
  equal(url.port, "");
});

about("URLSearchParams");

check("searchParams is one live object", () => {
  const url = new URL("https://h/?a=1&b=2");
  const { searchParams } = url;
  equal(searchParams === url.searchParams, true);
  searchParams.append("c", "x y&z");
  equal(url.search, "?a=1&b=2&c=x+y%26z");
  searchParams.delete("a");
  searchParams.set("b", "ü");
  equal(url.href, "https://h/?b=%C3%BC&c=x+y%26z");
  url.search = "?n=1";
  equal([...searchParams], [["n", "1"]]);
  url.href = "https://h/?m=2";
  equal([...searchParams], [["m", "2"]]);
  searchParams.delete("m");
  equal(url.href, "https://h/");
});

about("URL");

check("two URLs with the same text do not share state", () => {
  const [a, b] = [new URL("https://h/x"), new URL("https://h/x")];
  a.pathname = "/y";
  equal([a.href, b.href], ["https://h/y", "https://h/x"]);
});

about("URLSearchParams");

check("URLSearchParams accepts strings, records, pairs and other URLSearchParams", () => {
  equal([...new URLSearchParams("?a=1&b=2&a=3")], [["a", "1"], ["b", "2"], ["a", "3"]]);
  equal([...new URLSearchParams("??a=1")], [["?a", "1"]]);
  equal([...new URLSearchParams("a&=b&&c=d=e")], [["a", ""], ["", "b"], ["c", "d=e"]]);
  equal([...new URLSearchParams("a=b+c%20d&%zz=%FF&%C3%A9=1")], [["a", "b c d"], ["%zz", "\uFFFD"], ["é", "1"]]);
  equal(new URLSearchParams({ x: 1, "ü": "a b" }).toString(), "x=1&%C3%BC=a+b");
  equal(new URLSearchParams([["a", "b"], new Set(["c", "d"])]).toString(), "a=b&c=d");
  equal(new URLSearchParams(new URLSearchParams("a=b")).toString(), "a=b");
  equal(new URLSearchParams(undefined).size, 0);
  equal(new URLSearchParams(null).toString(), "null=");
  throws("TypeError", () => new URLSearchParams([["a"]]));
  throws("TypeError", () => new URLSearchParams([1]));
  throws("TypeError", () => new URLSearchParams({ [Symbol.iterator]: 1 }));
});

check("URLSearchParams keeps order and duplicates", () => {
  const params = new URLSearchParams("a=1&b=2&a=3");
  equal([params.get("a"), params.get("x"), params.getAll("a"), params.size], ["1", null, ["1", "3"], 3]);
  equal([params.has("a"), params.has("a", "2"), params.has("a", "3")], [true, false, true]);
  params.set("a", "9");
  equal(params.toString(), "a=9&b=2");
  params.append("a", "10");
  params.delete("a", "9");
  equal(params.toString(), "b=2&a=10");
});

check("URLSearchParams sorts by code unit, and its sort is stable", () => {
  const params = new URLSearchParams("z=b&a=b&z=a&ﬃ&🌈");
  params.sort();
  equal([...params.keys()], ["a", "z", "z", "🌈", "ﬃ"]);
  equal(params.getAll("z"), ["b", "a"]);
});

check("URLSearchParams can be iterated while it changes", () => {
  const url = new URL("http://h/?a=1&b=2&c=3");
  const seen = [];
  for (const [name] of url.searchParams) {
    seen.push(name);
    if (name === "a") url.searchParams.delete("b");
  }
  equal(seen, ["a", "c"]);
});

check("lone surrogates become replacement characters", () => {
  equal(new URL("http://h/?\uD800").search, "?%EF%BF%BD");
  equal(new URLSearchParams("\uD800=x").get("\uFFFD"), "x");
  equal(new URLSearchParams({ "\uD800": "1", "\uDBFF": "2" }).toString(), "%EF%BF%BD=2");
});

check("characters are escaped as in form encoding", () => {
  equal(new URLSearchParams([["*-._ ~'()!", "\u0000\n%"]]).toString(), "*-._+%7E%27%28%29%21=%00%0A%25");
});

about("URL");

check("a caret is encoded in a path, but not in an opaque path", () => {
  equal(new URL("http://h/a^b?^#^").href, "http://h/a%5Eb?^#^");
  equal(new URL("data:a^b").href, "data:a^b");
});

check("the last trailing space of an opaque path is encoded before a query or a fragment", () => {
  const url = new URL("data:a  ?b#c");
  equal(url.href, "data:a %20?b#c");
  url.search = url.hash = "";
  equal([url.href, new URL("data:a  ").href], ["data:a %20", "data:a"]);
});

check("a path that is set on a URL without a host does not become a host", () => {
  const url = new URL("foo:/a?q");
  url.pathname = "//h/b";
  equal([url.href, url.host, url.pathname], ["foo:/.//h/b?q", "", "//h/b"]);
  url.pathname = "";
  equal(url.href, "foo:/?q");
});

check("a host that is set on a URL without a host precedes the path", () => {
  const hrefs = (href, part, ...values) => values.map((value) => {
    const url = new URL(href);
    url[part] = value;
    equal(parts(new URL(url.href)), parts(url));
    return url.href;
  });
  equal(hrefs("a:/.///:x", "host", "h", "h:80", "", "h i", ":80"),
    ["a://h///:x", "a://h:80///:x", "a://///:x", "a:/.///:x", "a:/.///:x"]);
  equal(hrefs("a:/x?q", "hostname", "h", "", "h/i", "h:80", "[::1]"),
    ["a://h/x?q", "a:///x?q", "a://h/x?q", "a:/x?q", "a://[::1]/x?q"]);
  equal(hrefs("mailto:x", "host", "h"), ["mailto:x"]);
  equal([new URL("a:/.//x").pathname, new URL("a:/x/../..//y").href], ["//x", "a:/.//y"]);
});

check("setters of parts that a URL with an opaque path cannot have do not change it", () => {
  const url = new URL("data:x y ");
  for (const part of ["username", "password", "host", "hostname", "port", "pathname"]) url[part] = "1";
  equal(url.href, "data:x y");
  url.hash = "f";
  url.search = "?q";
  url.protocol = "a";
  equal(url.href, "a:x y?q#f");
});

check("only a fragment is relative to an opaque path", () => {
  equal(new URL("#b", "data:x?y#a").href, "data:x?y#b");
  for (const input of ["", "?y", "/x", "x#b", "//h#b"]) equal(URL.canParse(input, "data:x"), false, input);
});

check("all slashes before the host of a special URL are ignored", () => {
  equal(new URL("///example.org/p", "http://example.org/").href, "http://example.org/p");
  equal(new URL("\\\\h\\p", "https://example.org/").href, "https://h/p");
  equal([new URL("http:///h").href, new URL("http:h").href, new URL("http:h", "http://o/p/q").href],
    ["http://h/", "http://h/", "http://o/p/h"]);
});

check("a file: URL may have a host and a drive letter", () => {
  equal(new URL("file:////foo").href, "file:////foo");
  equal(parts(new URL("file://example.net/C:/")), ["file:", "", "", "example.net", "", "/C:/", "", ""]);
  equal(["file://localhost/x", "file:C|/x", "file:///C|/../..", "file://C:/x", "file:x"].map((input) => new URL(input).href),
    ["file:///x", "file:///C:/x", "file:///C:/", "file:///C:/x", "file:///x"]);
  equal([new URL("/x", "file:///C:/y").href, new URL("..", "file://h/C:/x").href], ["file:///C:/x", "file://h/C:/"]);
  const url = new URL("file:///x");
  url.host = "localhost";
  equal(url.href, "file:///x");
  url.port = "80";
  url.username = "u";
  url.host = "h";
  equal(url.href, "file://h/x");
});

check("a domain is converted to ASCII", () => {
  equal(["faß.example", "FASS.example", "日本語。ＪＰ", "a\u00adb", "%C3%BC.de", "xn--bcher-kva"].map((host) => new URL(`http://${host}`).host),
    ["xn--fa-hia.example", "fass.example", "xn--wgv71a119e.jp", "ab", "xn--tda.de", "xn--bcher-kva"]);
  for (const host of ["a b", "a%00b", "a^b", "a|b", "xn--a", "\u00ad", "%zz", "a<b"]) equal(URL.canParse(`http://${host}/`), false, host);
  equal(new URL("a://Üb").host, "%C3%9Cb");
});

check("an IPv4 address has several notations", () => {
  equal(["127.1", "0x7F000001", "0177.0.0.01", "2130706433", "127.0.0.1.", "０x7f.1"].map((host) => new URL(`http://${host}`).host),
    Array(6).fill("127.0.0.1"));
  for (const host of ["256.0.0.0", "1.2.3.4.5", "0x100000000", "1.2.3.09", "a.1"]) equal(URL.canParse(`http://${host}`), false, host);
  equal(new URL("a://127.1").host, "127.1");
});

check("an IPv6 address is compressed", () => {
  equal(["1:0:0:2:0:0:0:3", "::", "::127.0.0.1", "A:b::"].map((host) => new URL(`http://[${host}]`).host),
    ["[1:0:0:2::3]", "[::]", "[::7f00:1]", "[a:b::]"]);
  for (const host of ["1::2::3", "1:2:3:4:5:6:7", "::1%eth0", "12345::", "::1.2.3", "::1"]) {
    equal(URL.canParse(`http://[${host}/`), false, host);
    equal(URL.canParse(`http://[${host}]`), host === "::1", host);
  }
});

check("the port zero is a port", () => {
  const url = new URL("a://h:0");
  url.protocol = "b";
  equal([url.href, new URL("http://h:0").port, new URL("http://h:").port], ["b://h:0", "0", ""]);
});

check("parse and canParse accept the same arguments as the constructor", () => {
  equal([URL.parse("nothing"), URL.parse("/a", "http://h").href, URL.parse("a", "b")], [null, "http://h/a", null]);
  equal([URL.canParse("nothing"), URL.canParse("/a", "http://h"), URL.canParse("http://h", undefined)], [false, true, true]);
  throws("TypeError", () => URL.parse());
  throws("TypeError", () => URL.canParse());
});

about("URLSearchParams");

check("has and delete take an optional value", () => {
  const params = new URLSearchParams("a=1&a=2&b=3&a=null");
  equal([params.has("a", "2"), params.has("a", "9"), params.has("a", undefined), params.has("a", null)], [true, false, true, true]);
  params.delete("a", "1");
  equal(`${params}`, "a=2&b=3&a=null");
  params.delete("a", undefined);
  equal([`${params}`, params.size], ["b=3", 1]);
});
