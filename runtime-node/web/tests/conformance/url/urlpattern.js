// Checks of URLPattern (URL Pattern Standard).
import { about, check, equal, logs, throws } from "../check.js";
export { default } from "../check.js";

const parts = (pattern) => ["protocol", "username", "password", "hostname", "port", "pathname", "search", "hash"].map((name) => pattern[name]);

about("URLPattern");

check("an empty pattern matches everything", () => {
  for (const pattern of [new URLPattern(), new URLPattern({}), new URLPattern(undefined)]) {
    equal(parts(pattern), ["*", "*", "*", "*", "*", "*", "*", "*"]);
    equal([pattern.test("https://u:p@host:1/a?b#c"), pattern.test("data:x"), pattern.test({}), pattern.test("relative")], [true, true, true, false]);
  }
});

check("a string is parsed like a URL, and later components that it omits are wildcards", () => {
  equal(parts(new URLPattern("https://example.com/a/:b\\?c=*#d")), ["https", "*", "*", "example.com", "", "/a/:b", "c=*", "d"]);
  equal(parts(new URLPattern("https://example.com")), ["https", "*", "*", "example.com", "", "*", "*", "*"]);
  equal(parts(new URLPattern("http{s}?://*:8080/x")), ["http{s}?", "*", "*", "*", "8080", "/x", "*", "*"]);
  equal(parts(new URLPattern("https://user\\:pw@host/")), ["https", "user", "pw", "host", "", "/", "*", "*"]);
  equal(parts(new URLPattern("data\\:foobar")), ["data", "*", "*", "", "", "foobar", "*", "*"]);
  equal(parts(new URLPattern("https://host:443/")), ["https", "*", "*", "host", "", "/", "*", "*"]);
});

check("a relative string needs a base URL", () => {
  throws("TypeError", () => new URLPattern("/a/:b"));
  throws("TypeError", () => new URLPattern("/a", "not a base"));
  const pattern = new URLPattern("../x/:y", "https://host:81/a/b/c?q#h");
  equal(parts(pattern), ["https", "*", "*", "host", "81", "/a/x/:y", "*", "*"]);
  equal(new URLPattern("/foo", "https://host/bar").test("https://host/foo"), true);
  equal(new URLPattern("?q=:v", "https://host/a").exec("https://host/a?q=1").search.groups, { v: "1" });
});

check("an object provides components and a base URL", () => {
  const pattern = new URLPattern({ pathname: "/a/:b", baseURL: "https://host/x?y" });
  equal(parts(pattern), ["https", "*", "*", "host", "", "/a/:b", "*", "*"]);
  throws("TypeError", () => new URLPattern({ pathname: "/a" }, "https://host/"));
  throws("TypeError", () => new URLPattern({ baseURL: "nonsense" }));
  equal(new URLPattern({ pathname: "b", baseURL: "https://host/x/y" }).pathname, "/x/b");
});

check("named groups, wildcards and expressions match", () => {
  const groups = (pathname, input) => new URLPattern({ pathname }).exec({ pathname: input })?.pathname.groups ?? null;
  equal(groups("/books/:id", "/books/12"), { id: "12" });
  equal(groups("/books/:id", "/books/12/3"), null);
  equal(groups("/books/:id(\\d+)", "/books/12"), { id: "12" });
  equal(groups("/books/:id(\\d+)", "/books/x"), null);
  equal(groups("/*", "/a/b"), { 0: "a/b" });
  equal(groups("/*/x/*", "/a/x/b/c"), { 0: "a", 1: "b/c" });
  equal(groups("/(\\d+)", "/5"), { 0: "5" });
  equal(groups("/:a-:b", "/x-y"), { a: "x", b: "y" });
  equal(groups("/:a.:b", "/x.y"), { a: "x", b: "y" });
  equal(groups("/:_\u00e9$", "/x"), { "_\u00e9$": "x" });
});

check("modifiers are supported", () => {
  const groups = (pathname, input) => new URLPattern({ pathname }).exec({ pathname: input })?.pathname.groups ?? null;
  equal(groups("/a/:b?", "/a"), { b: undefined });
  equal(groups("/a/:b?", "/a/c"), { b: "c" });
  equal(groups("/a/:b+", "/a/c/d"), { b: "c/d" });
  equal(groups("/a/:b+", "/a"), null);
  equal(groups("/a/:b*", "/a"), { b: undefined });
  equal(groups("/a/:b*", "/a/c/d"), { b: "c/d" });
  equal(groups("/a{/b}?", "/a"), {});
  equal(groups("/a{/b}?", "/a/b"), {});
  equal(groups("/a{/b}+", "/a/b/b"), {});
  equal(groups("/a{/:b}*", "/a/c/d"), { b: "c/d" });
  equal(groups("/a{b}c", "/abc"), {});
  equal(groups("/\\:a\\*", "/:a*"), {});
});

check("exec returns the inputs and the groups of each component", () => {
  const pattern = new URLPattern({ hostname: ":sub.example.com", pathname: "/:a" });
  const result = pattern.exec("https://www.example.com:8080/x?y#z");
  equal(Object.keys(result), ["inputs", "protocol", "username", "password", "hostname", "port", "pathname", "search", "hash"]);
  equal(result.inputs, ["https://www.example.com:8080/x?y#z"]);
  equal(result.protocol, { input: "https", groups: { 0: "https" } });
  equal(result.username, { input: "", groups: { 0: "" } });
  equal(result.hostname, { input: "www.example.com", groups: { sub: "www" } });
  equal(result.port, { input: "8080", groups: { 0: "8080" } });
  equal([result.pathname, result.search.input, result.hash.input], [{ input: "/x", groups: { a: "x" } }, "y", "z"]);
  equal(pattern.exec("https://other.com/x"), null);
});

check("inputs are URLs, relative ones with a base, or objects", () => {
  const pattern = new URLPattern({ pathname: "/a/*" });
  equal([pattern.test("https://h/a/b"), pattern.test("a/b", "https://h/"), pattern.test("b", "https://h/a/"), pattern.test("b")],
    [true, true, true, false]);
  equal([pattern.test({ pathname: "/a/b" }), pattern.test({ pathname: "b", baseURL: "https://h/a/" }), pattern.test(new URL("https://h/a/"))],
    [true, true, true]);
  throws("TypeError", () => pattern.test({ pathname: "/a" }, "https://h/"));
  equal(pattern.exec("a/b", "https://h/").inputs, ["a/b", "https://h/"]);
  equal(pattern.exec({ pathname: "/a/b", other: 1 }).inputs, [{ pathname: "/a/b" }]);
  equal(pattern.test("x", "nonsense"), false);
  equal(pattern.test({ baseURL: "nonsense" }), false);
});

check("patterns and inputs are canonicalized", () => {
  equal(new URLPattern({ hostname: "B\u00dcCHER.example" }).hostname, "xn--bcher-kva.example");
  equal(new URLPattern({ pathname: "/caf\u00e9/:x" }).pathname, "/caf%C3%A9/:x");
  equal(new URLPattern({ search: "?a" }).search, "a");
  equal(new URLPattern({ hash: "#a" }).hash, "a");
  equal(new URLPattern({ protocol: "https:" }).protocol, "https");
  equal(new URLPattern({ protocol: "http", port: "80" }).port, "");
  equal(new URLPattern({ pathname: "/caf\u00e9" }).test("https://h/caf%C3%A9"), true);
  equal(new URLPattern({ pathname: "/(.*)" }).pathname, "/*");
  equal(new URLPattern({ pathname: "/a/:b([^\\/]+?)" }).pathname, "/a/:b");
});

check("ignoreCase ignores the case of paths, queries and fragments", () => {
  equal(new URLPattern({ pathname: "/Foo" }).test({ pathname: "/foo" }), false);
  equal(new URLPattern({ pathname: "/Foo" }, { ignoreCase: true }).test({ pathname: "/fOO" }), true);
  equal(new URLPattern("https://h/Foo?Bar#Baz", { ignoreCase: true }).test("https://h/foo?bar#baz"), true);
  equal(new URLPattern("/Foo", "https://h", { ignoreCase: true }).test("https://h/foo"), true);
  equal(new URLPattern("/Foo", "https://h", { ignoreCase: false }).test("https://h/foo"), false);
});

check("hasRegExpGroups returns whether a pattern contains regular expressions", () => {
  equal(new URLPattern({ pathname: "/:a/*" }).hasRegExpGroups, false);
  equal(new URLPattern({ pathname: "/:a(x)" }).hasRegExpGroups, true);
  equal(new URLPattern({ hostname: "(a|b)" }).hasRegExpGroups, true);
});

check("expressions have the syntax of JavaScript with the flag v", () => {
  equal(new URLPattern({ pathname: "/([[a-z]&&[^b]]+)" }).test({ pathname: "/ac" }), true);
  equal(new URLPattern({ pathname: "/([[a-z]&&[^b]]+)" }).test({ pathname: "/b" }), false);
  equal(new URLPattern({ pathname: "/(a(?=b).*)" }).test({ pathname: "/abc" }), true);
  equal(new URLPattern({ pathname: "/((?<=\\/)x)" }).test({ pathname: "/x" }), true);
});

check("invalid patterns are rejected", () => {
  for (const pathname of ["/(", "/:a/:a", "/{", "/(?x)", "/([)", "/((x))", "/:", "/()", "/(\u00e9)", "\\"]) {
    throws("TypeError", () => new URLPattern({ pathname }));
  }
  throws("TypeError", () => new URLPattern({ port: "x" }));
  throws("TypeError", () => new URLPattern({ hostname: "a b" }));
  throws("TypeError", () => new URLPattern({ pathname: `/${"a".repeat(10_000)}` }), "4096");
  throws("TypeError", () => URLPattern({}));
  throws("TypeError", () => URLPattern.prototype.test.call({}));
});

check("URLPattern behaves like other interfaces", () => {
  const pattern = new URLPattern({ pathname: "/a" });
  equal([String(pattern), Object.keys(pattern), URLPattern.length], ["[object URLPattern]", [], 0]);
  throws("TypeError", () => { pattern.pathname = "/b"; });
  logs("INFO", "URLPattern {\n  protocol: '*',\n  username: '*',\n  password: '*',\n  hostname: '*',\n  port: '*',\n  pathname: '/a',\n  search: '*',\n  hash: '*'\n}",
    () => console.log(pattern));
});
