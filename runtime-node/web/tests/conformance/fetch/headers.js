// Checks of Headers (Fetch §5.1).
import { about, check, equal, throws } from "../check.js";
export { default } from "../check.js";

about("Headers");

check("names are case-insensitive and values are trimmed", () => {
  const headers = new Headers({ "Content-Type": " text/plain\t" });
  equal(headers.get("content-TYPE"), "text/plain");
  equal(headers.has("CONTENT-type"), true);
  equal([...headers], [["content-type", "text/plain"]]);
  headers.set("CONTENT-TYPE", "a");
  equal(headers.get("content-type"), "a");
  headers.delete("Content-type");
  equal(headers.get("content-type"), null);
});

check("values of one name are combined", () => {
  const headers = new Headers([["a", "1"], ["A", "2"], ["b", ""]]);
  equal(headers.get("a"), "1, 2");
  headers.append("a", "3");
  equal(headers.get("a"), "1, 2, 3");
  headers.append("b", "x");
  equal(headers.get("b"), ", x");
  headers.set("a", "4");
  equal(headers.get("a"), "4");
});

check("iteration is sorted and live", () => {
  const headers = new Headers({ c: "3", a: "1", b: "2" });
  equal([...headers.keys()], ["a", "b", "c"]);
  equal([...headers.values()], ["1", "2", "3"]);
  const entries = headers.entries();
  entries.next();
  headers.append("aa", "x");
  equal(entries.next().value, ["aa", "x"]);
  const seen = [];
  headers.forEach(function (value, name, all) {
    seen.push([value, name, all === headers, this.it]);
  }, { it: 1 });
  equal(seen[0], ["1", "a", true, 1]);
});

check("Set-Cookie headers are not combined in iteration", () => {
  const headers = new Headers();
  headers.append("Set-Cookie", "a=1");
  headers.append("x", "y");
  headers.append("set-cookie", "b=2");
  equal(headers.getSetCookie(), ["a=1", "b=2"]);
  equal(headers.get("set-cookie"), "a=1, b=2");
  equal([...headers], [["set-cookie", "a=1"], ["set-cookie", "b=2"], ["x", "y"]]);
  equal(new Headers(headers).getSetCookie(), ["a=1", "b=2"]);
});

check("invalid names and values are rejected", () => {
  for (const name of ["", "a b", "a:", "ü", "a\n", "(", "\u{1F600}"]) {
    throws("TypeError", () => new Headers().set(name, "x"));
    throws("TypeError", () => new Headers().get(name));
    throws("TypeError", () => new Headers([[name, "x"]]));
  }
  for (const value of ["a\0", "a\nb", "a\rb", "\u{100}"]) {
    throws("TypeError", () => new Headers().append("a", value));
  }
  new Headers().append("a", "\xFF");
  throws("TypeError", () => new Headers([["a", "b", "c"]]));
  throws("TypeError", () => new Headers("a"));
  throws("TypeError", () => new Headers(null));
  throws("TypeError", () => new Headers().append("a"));
  throws("TypeError", () => new Headers({ [Symbol("a")]: "x" }));
});

check("values are converted to strings", () => {
  const headers = new Headers({ n: 1, u: undefined, o: { toString: () => "o" } });
  equal([...headers.values()], ["1", "o", "undefined"]);
});

check("a record is read through its own enumerable properties", () => {
  const record = Object.create({ inherited: "x" }, {
    hidden: { value: "y" },
    seen: { get: () => "z", enumerable: true },
  });
  equal([...new Headers(record)], [["seen", "z"]]);
});

check("a change is visible in every view of a response's headers", () => {
  const response = new Response("", { headers: { a: "1" } });
  response.headers.set("a", "2");
  equal(response.headers.get("a"), "2");
  equal(response.headers === response.headers, true);
});
