// Checks of HTMLRewriter: handlers that return promises, and streams as input and as content.
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

const rewrite = (html, rewriter) => rewriter.transform(new Response(html)).text();
const later = () => scheduler.wait(1);
const encode = (text) => new TextEncoder().encode(text);
const decode = (bytes) => new TextDecoder().decode(bytes);

about("HTMLRewriter");

check("handlers of all kinds may wait, and then change their token", async () => {
  const html = await rewrite("<!doctype html><p a=b>x<!--y--></p>", new HTMLRewriter()
    .on("p", {
      async element(p) {
        p.before("1");
        await later();
        p.prepend("2").setAttribute("a", p.getAttribute("a") + "c").append("3").after("4");
        p.onEndTag(async (end) => {
          await later();
          end.before("5").after("6");
        });
        await later();
        p.tagName = "div";
      },
      async comments(comment) {
        await later();
        comment.text = "z";
      },
      async text(chunk) {
        await later();
        if (!chunk.lastInTextNode) chunk.replace("w");
      },
    })
    .onDocument({
      doctype: async ({ name }) => {
        await later();
        equal(name, "html");
      },
      end: async (end) => {
        await later();
        end.append("7");
      },
    }));
  equal(html, "<!doctype html>1<div a=\"bc\">2w<!--z-->35</div>647");
});

check("handlers run one after another, in the order of the document", async () => {
  const order = [];
  let running = 0;
  const handle = async (name) => {
    order.push(name);
    equal(++running, 1);
    if (name !== "text") await later();
    else await null;
    equal(running--, 1);
  };
  await rewrite("<a>x<b></b></a><a></a>", new HTMLRewriter()
    .on("a", { element: ({ tagName }) => handle(tagName), text: () => handle("text") })
    .on("*", { element: ({ tagName }) => handle(`*${tagName}`) }));
  equal(order, ["a", "*a", "text", "text", "*b", "a", "*a"]);
});

check("content that an asynchronous handler removes is removed", async () => {
  const seen = [];
  const html = await rewrite("<div>a<p>b</p></div>c", new HTMLRewriter()
    .on("div", {
      async element(div) {
        await later();
        div.setInnerContent("new");
      },
    })
    .on("p", { element: (p) => void seen.push(p.removed) }));
  equal([html, seen], ["<div>new</div>c", [true]]);
});

check("the new body fails with the reason for which a handler's promise is rejected", async () => {
  const fails = async () => {
    await later();
    throw new RangeError("late");
  };
  await rejects("RangeError", rewrite("<p>", new HTMLRewriter().on("p", { element: fails })), "late");
  const thenable = { then: (_, reject) => reject(new RangeError("thenable")) };
  await rejects("RangeError", rewrite("<p>", new HTMLRewriter().on("p", { element: () => thenable })), "thenable");
  equal(await rewrite("<p>", new HTMLRewriter().on("p", { element: () => ({ then: 1 }) })), "<p>");
});

check("a token can be used until the promise of its handler is settled", async () => {
  let kept;
  await rewrite("<p>", new HTMLRewriter().on("p", {
    async element(p) {
      kept = p;
      await later();
      equal(p.tagName, "p");
    },
  }));
  throws("TypeError", () => kept.tagName, "handler has ended");
});

check("output before a handler that waits is not delayed", async () => {
  const { promise, resolve } = Promise.withResolvers();
  const response = new HTMLRewriter().on("b", { element: () => promise }).transform(new Response("<a>x</a><b>y</b>"));
  const reader = response.body.getReader();
  equal(decode((await reader.read()).value), "<a>x</a>");
  resolve();
  equal(decode((await reader.read()).value), "<b>y</b>");
  equal((await reader.read()).done, true);
});

check("output is not delayed by input that has not arrived", async () => {
  const { readable, writable } = new TransformStream();
  const writer = writable.getWriter();
  const reader = new HTMLRewriter().on("p", { element: (p) => void p.append("!") }).transform(new Response(readable)).body.getReader();
  const next = async (text) => {
    const read = reader.read();
    await writer.write(encode(text));
    return decode((await read).value);
  };
  equal(await next("<p>a"), "<p>a");
  equal(await next("b<"), "b");
  equal(await next("/p>c"), "!</p>c");
  const end = reader.read();
  await writer.close();
  equal((await end).done, true);
});

check("tokens may be split anywhere", async () => {
  const page = "<!doctype html><p class='a b' title=\"\u00e9\">x\u20acy<!-- \u{1d11e} --></p><br/>";
  const rewriter = new HTMLRewriter()
    .on("p.b[title=\u00e9]", {
      element: (p) => void p.setAttribute("n", `${[...p.attributes].length}`),
      comments: (comment) => void (comment.text += "!"),
      text: (chunk) => void (chunk.text && chunk.replace(chunk.text.toUpperCase())),
    })
    .onDocument({ doctype: ({ name }) => equal(name, "html") });
  const expected = "<!doctype html><p class='a b' title=\"\u00e9\" n=\"2\">X\u20acY<!-- \u{1d11e} !--></p><br/>";
  const bytes = encode(page);
  for (let length = 1; length <= bytes.length; length++) {
    const pieces = [];
    for (let at = 0; at < bytes.length; at += length) pieces.push(bytes.slice(at, at + length));
    const response = rewriter.transform(new Response(ReadableStream.from(pieces)));
    equal(await response.text(), expected, `pieces of ${length}`);
  }
});

check("the old body is read only as fast as the new one", async () => {
  let pulled = 0;
  const piece = encode("<p>x</p>".repeat(1000));
  const body = new ReadableStream({
    pull(controller) {
      if (pulled++ < 1000) controller.enqueue(piece.slice());
      else controller.close();
    },
  }, { highWaterMark: 0 });
  const reader = new HTMLRewriter().on("p", { element() {} }).transform(new Response(body)).body.getReader();
  await reader.read();
  await later();
  equal(pulled < 20, true, `${pulled} pieces`);
  await reader.cancel();
});

check("large documents are rewritten in parts", async () => {
  let [longest, length] = [0, 0];
  const body = new HTMLRewriter().on("p", { element: (p) => void p.setAttribute("a", "b") })
    .transform(new Response("<p>x</p>".repeat(1e5))).body;
  for await (const part of body) [longest, length] = [Math.max(longest, part.length), length + part.length];
  equal(length, 1e5 * "<p a=\"b\">x</p>".length);
  equal(longest < 2 ** 17, true, `${longest} bytes`);
});

check("streams and responses are inserted", async () => {
  const streams = () => ReadableStream.from([encode("<i>\u00e9"), encode("&</i>")]);
  for (const make of [streams, () => new Response(streams()), () => new Response("<i>\u00e9&</i>"), () => new Response("<i>\u00e9&</i>").body]) {
    for (const [options, content] of [[undefined, "&lt;i&gt;\u00e9&amp;&lt;/i&gt;"], [{ html: true }, "<i>\u00e9&</i>"]]) {
      const html = await rewrite("<p>x<!--c--></p>", new HTMLRewriter()
        .on("p", {
          element: (p) => void p.before(make(), options).prepend("1").prepend(make(), options).append(make(), options).append("2").after(make(), options),
          comments: (comment) => void comment.replace(make(), options),
          text: (chunk) => void (chunk.lastInTextNode || chunk.after(make(), options)),
        })
        .onDocument({ end: (end) => void end.append(make(), options) }));
      equal(html, `${content}<p>${content}1x${content}${content}${content}2</p>${content}${content}`);
    }
  }
  equal(await rewrite("<p>x</p>", new HTMLRewriter().on("p", { element: (p) => void p.replace(new Response(null)) })), "");
});

check("streams are read when their place is reached", async () => {
  const order = [];
  const make = (name) => new ReadableStream({
    pull(controller) {
      order.push(name);
      controller.enqueue(encode(name));
      controller.close();
    },
  }, { highWaterMark: 0 });
  const html = await rewrite("<p>x</p>", new HTMLRewriter().on("p", {
    element: (p) => void p.after(make("3")).append(make("2")).before(make("1")),
    text: ({ lastInTextNode }) => void (lastInTextNode || order.push("text")),
  }));
  equal([html, order], ["1<p>x2</p>3", ["1", "text", "2", "3"]]);
});

check("a character may be split between the pieces of a stream", async () => {
  const pieces = Array.from(encode("<\u00e9\u20ac\u{1d11e}>"), (byte) => new Uint8Array([byte]));
  const html = await rewrite("<p>", new HTMLRewriter().on("p", { element: (p) => void p.before(ReadableStream.from(pieces)) }));
  equal(html, "&lt;\u00e9\u20ac\u{1d11e}&gt;<p>");
});

check("streams that fail, or that are not UTF-8, fail the new body", async () => {
  const insert = (content) => rewrite("<p>", new HTMLRewriter().on("p", { element: (p) => void p.before(content) }));
  await rejects("TypeError", insert(ReadableStream.from([new Uint8Array([0xff])])), "UTF-8");
  await rejects("TypeError", insert(ReadableStream.from([new Uint8Array([0xe2, 0x82])])), "UTF-8");
  await rejects("TypeError", insert(ReadableStream.from(["text"])), "Uint8Array");
  await rejects("RangeError", insert(new ReadableStream({ start: (controller) => controller.error(new RangeError("broken")) })), "broken");
});

check("a stream that has been used is rejected, and one that is not needed is canceled", async () => {
  const used = new Response("x");
  await used.text();
  const locked = new ReadableStream();
  locked.getReader();
  const insert = (content) => rewrite("<p>", new HTMLRewriter().on("p", { element: (p) => void p.before(content) }));
  for (const content of [used, locked, used.body]) await rejects("TypeError", insert(content));
  let canceled = false;
  const unneeded = new ReadableStream({ cancel: () => void (canceled = true) });
  equal(await rewrite("<p>x</p>", new HTMLRewriter().on("p", { element: (p) => void p.append(unneeded).remove() })), "");
  equal(canceled, true);
});
