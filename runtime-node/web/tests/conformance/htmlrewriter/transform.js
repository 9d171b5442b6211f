// Checks of HTMLRewriter: `transform`, the registration of handlers, errors and cancellation.
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

about("HTMLRewriter");

check("the new response has the status and headers of the old one, except Content-Length", async () => {
  const headers = { "content-type": "text/html", "content-length": "8", etag: "x" };
  const before = new Response("<p>a</p>", { status: 404, statusText: "Gone astray", headers });
  before.headers.append("set-cookie", "a=1");
  before.headers.append("set-cookie", "b=2");
  const after = new HTMLRewriter().on("p", { element: (p) => void p.append("b") }).transform(before);
  equal([after === before, after instanceof Response, after.status, after.statusText], [false, true, 404, "Gone astray"]);
  equal([after.headers.get("content-type"), after.headers.get("content-length"), after.headers.get("etag")], ["text/html", null, "x"]);
  equal(after.headers.getSetCookie(), ["a=1", "b=2"]);
  after.headers.set("etag", "y");
  equal([before.headers.get("etag"), before.headers.get("content-length")], ["x", "8"]);
  equal(await after.text(), "<p>ab</p>");
  equal(new HTMLRewriter().transform(new Response(new Uint8Array(1))).headers.has("content-type"), false);
});

check("a response without a body is returned as it is", () => {
  for (const response of [new Response(null), new Response(null, { status: 204 }), Response.redirect("https://host/")]) {
    equal(new HTMLRewriter().on("p", {}).transform(response) === response, true);
  }
});

check("the body of the old response is used", async () => {
  const response = new Response("<p>");
  const after = new HTMLRewriter().transform(response);
  equal(response.bodyUsed, true);
  await rejects("TypeError", response.text());
  throws("TypeError", () => new HTMLRewriter().transform(response));
  equal([after.bodyUsed, await after.text(), after.bodyUsed], [false, "<p>", true]);
  const locked = new Response("<p>");
  locked.body.getReader();
  throws("TypeError", () => new HTMLRewriter().transform(locked));
});

check("bodies of all kinds are rewritten", async () => {
  const rewriter = new HTMLRewriter().on("p", { element: (p) => void p.append("!") });
  const encode = (text) => new TextEncoder().encode(text);
  for (const body of [
    "<p>a</p>", encode("<p>a</p>"), new Blob(["<p>a</p>"]), ReadableStream.from([encode("<p>"), encode("a</p>")]),
    new Response("<p>a</p>").body, new Response(encode("<p>a</p>")).body,
  ]) equal(await rewriter.transform(new Response(body)).text(), "<p>a!</p>");
  equal(await rewriter.transform(new Response("")).text(), "");
  const fetched = await fetch("data:text/html,<p>a</p>");
  equal(await rewriter.transform(fetched).text(), "<p>a!</p>");
  const twice = rewriter.transform(rewriter.transform(new Response("<p>a</p>")));
  equal(await twice.text(), "<p>a!!</p>");
});

check("a rewriter transforms any number of responses, with the handlers that it has at the time", async () => {
  const rewriter = new HTMLRewriter().on("p", { element: (p) => void p.append("1") });
  const first = rewriter.transform(new Response("<p></p>"));
  equal(rewriter.on("p", { element: (p) => void p.append("2") }) === rewriter, true);
  equal(rewriter.onDocument({ end: (end) => void end.append("3") }) === rewriter, true);
  const second = rewriter.transform(new Response("<p></p>"));
  equal(await Promise.all([second.text(), first.text()]), ["<p>12</p>3", "<p>1</p>"]);
});

check("arguments are checked", () => {
  const rewriter = new HTMLRewriter();
  throws("TypeError", () => rewriter.on("p"));
  throws("TypeError", () => rewriter.on("p", 1));
  throws("TypeError", () => rewriter.on("p", { element: 1 }));
  throws("TypeError", () => rewriter.on("p", { text: null }));
  throws("TypeError", () => rewriter.onDocument());
  throws("TypeError", () => rewriter.onDocument({ end: {} }));
  for (const value of [undefined, null, "x", {}, new Request("https://host/"), Object.create(Response.prototype)]) {
    throws("TypeError", () => rewriter.transform(value));
  }
  throws("TypeError", () => rewriter.transform(Response.error()));
  for (const method of ["on", "onDocument", "transform"]) {
    throws("TypeError", () => HTMLRewriter.prototype[method].call({}, new Response("x"), {}));
  }
});

check("the handlers are read once, when they are registered", async () => {
  let reads = 0;
  const handlers = {
    get element() {
      reads++;
      return (p) => void p.append("x");
    },
  };
  const rewriter = new HTMLRewriter().on("p", handlers);
  equal(reads, 1);
  Object.defineProperty(handlers, "element", { value: null });
  equal(await rewriter.transform(new Response("<p></p><p></p>")).text(), "<p>x</p><p>x</p>");
  equal(reads, 1);
});

check("handlers run only when the new body is read", async () => {
  let runs = 0;
  const response = new HTMLRewriter().on("p", { element: () => void runs++ }).transform(new Response("<p>"));
  await scheduler.wait(1);
  equal(runs, 0);
  const reader = response.body.getReader();
  equal(new TextDecoder().decode((await reader.read()).value), "<p>");
  equal([runs, (await reader.read()).done], [1, true]);
});

check("an exception in a handler fails the new body, and cancels the old one", async () => {
  const error = new RangeError("no");
  const fails = () => {
    throw error;
  };
  for (const handlers of [{ element: fails }, { text: fails }, { comments: fails }, { element: (p) => void p.onEndTag(fails) }, { element: async () => fails() }]) {
    let reason;
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("<p>a<!--b--></p>")),
      cancel: (given) => void (reason = given),
    });
    const response = new HTMLRewriter().on("p", handlers).transform(new Response(body));
    equal(await response.text().catch((e) => e === error), true);
    equal(reason === error, true);
  }
  await rejects("RangeError", new HTMLRewriter().onDocument({ end: fails }).transform(new Response("")).text(), "no");
  equal(await new HTMLRewriter().transform(new Response("ok")).text(), "ok");
});

check("an error in the old body fails the new one", async () => {
  const error = new RangeError("broken");
  const body = new ReadableStream({
    pull(controller) {
      controller.error(error);
    },
  });
  equal(await new HTMLRewriter().transform(new Response(body)).text().catch((e) => e === error), true);
  const strings = ReadableStream.from(["text"]);
  await rejects("TypeError", new HTMLRewriter().transform(new Response(strings)).text(), "Uint8Array");
});

check("a document that cannot be rewritten safely ends with an error, after the handlers before it", async () => {
  let runs = 0;
  const rewriter = new HTMLRewriter().on("a", { element: () => void runs++ });
  const page = "<a></a><select><xmp><script></script></select><a>";
  await rejects("TypeError", rewriter.transform(new Response(page)).text(), "xmp");
  equal(runs, 1);
});

check("canceling the new body cancels the old one", async () => {
  let reason;
  const body = new ReadableStream({ cancel: (given) => void (reason = given) });
  await new HTMLRewriter().transform(new Response(body)).body.cancel("enough");
  equal(reason, "enough");
  const kept = [];
  const page = new HTMLRewriter().on("p", { element: (p) => void kept.push(p) }).transform(new Response("<p></p>".repeat(1e5)));
  const reader = page.body.getReader();
  await reader.read();
  await reader.cancel();
  throws("TypeError", () => kept[0].tagName);
});

check("a handler may cancel the body that it writes", async () => {
  const reader = new HTMLRewriter().on("p", {
    async element(p) {
      await reader.cancel("stop");
      throws("TypeError", () => p.append("x"));
    },
  }).transform(new Response("<p></p><p></p>")).body.getReader();
  equal(await reader.read(), { value: undefined, done: true });
});
