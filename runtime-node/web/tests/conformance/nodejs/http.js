// Checks of node:http and node:https, with servers that cloudflare:node calls, and with clients as
// far as they need no origin.
import http, { Agent, ClientRequest, IncomingMessage, METHODS, OutgoingMessage, STATUS_CODES, Server, ServerResponse, createServer, get, request, validateHeaderName, validateHeaderValue } from "node:http";
import https from "node:https";
import { Readable, Writable, finished, pipeline } from "node:stream";
import { once } from "node:events";
import { handleAsNodeRequest, httpServerHandler } from "cloudflare:node";
import { about, check, equal, rejects, throws } from "../check.js";
export { default } from "../check.js";

about("node:http");

let next = 4000;
// Returns a function that sends a request to a server with this listener.
function serve(listener, options = {}) {
  const server = createServer(options, listener);
  const port = next++;
  server.listen(port);
  return (path = "/", init = {}) => handleAsNodeRequest(port, new Request(`https://app.test${path}`, init));
}
const texts = (message) => new Promise((resolve, reject) => {
  let text = "";
  message.setEncoding("utf8").on("data", (chunk) => (text += chunk)).on("end", () => resolve(text)).on("error", reject);
});

check("the module names the methods and status codes", () => {
  equal([METHODS.includes("GET"), METHODS.includes("M-SEARCH"), STATUS_CODES[404], STATUS_CODES[418]], [true, true, "Not Found", "I'm a Teapot"]);
  equal([http.maxHeaderSize, http.default, https.globalAgent.protocol, http.globalAgent.defaultPort], [16384, undefined, "https:", 80]);
  equal([new Agent().getName({ host: "a", port: 1 }), new https.Agent() instanceof Agent, Agent() instanceof Agent], ["a:1:", true, true]);
});

check("a server receives the method, URL, headers and body of a request", async () => {
  const send = serve(async (req, res) => {
    const body = await texts(req);
    res.setHeader("Content-Type", "application/json");
    res.end(JSON.stringify({ method: req.method, url: req.url, headers: req.headers, body, complete: req.complete, version: req.httpVersion }));
  });
  const response = await send("/a/b?c=d", { method: "POST", body: "hello", headers: { "x-a": "1", "Content-Type": "text/plain" } });
  equal([response.status, response.headers.get("content-type")], [200, "application/json"]);
  equal(await response.json(), {
    method: "POST", url: "/a/b?c=d", headers: { "x-a": "1", "content-type": "text/plain", host: "app.test" }, body: "hello", complete: true, version: "1.1",
  });
});

check("a request is a Readable, and a response is a Writable", async () => {
  const send = serve((req, res) => {
    equal([req instanceof Readable, req instanceof IncomingMessage, res instanceof Writable, res instanceof OutgoingMessage, res instanceof ServerResponse], [true, true, true, true, true]);
    equal([res.req === req, req.socket === res.socket, req.connection.encrypted, req.socket.remoteAddress], [true, true, true, "192.0.2.7"]);
    pipeline(req, res, () => {});
  });
  const response = await send("/", { method: "PUT", body: "echo", headers: { "x-forwarded-for": "198.51.100.1, 192.0.2.7" } });
  equal(await response.text(), "echo");
});

check("repeated headers of a request are joined, and cookies kept apart", async () => {
  const message = new IncomingMessage(null);
  for (const [name, value] of [["A", "1"], ["a", "2"], ["Cookie", "b=1"], ["cookie", "c=2"], ["Set-Cookie", "d"], ["set-cookie", "e"], ["Host", "x"], ["host", "y"], ["__proto__", "z"]]) {
    message._addHeaderLine(name, value);
  }
  equal(message.headers, { a: "1, 2", cookie: "b=1; c=2", "set-cookie": ["d", "e"], host: "x", ["__proto__"]: "z" });
  equal([message.headersDistinct.host, message.rawHeaders.slice(0, 2)], [["x", "y"], ["A", "1"]]);
});

check("a response that ends at once has a length and no stream", async () => {
  const send = serve((req, res) => {
    equal([res.headersSent, res.writableEnded, res.finished], [false, false, false]);
    res.write("a");
    equal([res.headersSent, res._header.startsWith("HTTP/1.1 200 OK")], [true, true]);
    res.end("bc", () => res.emit("mine"));
    equal([res.writableEnded, res.finished], [true, true]);
  });
  const response = await send();
  equal([response.headers.get("content-length"), response.headers.get("content-type"), await response.text()], ["3", null, "abc"]);
});

check("writeHead sets the status, the reason and headers", async () => {
  const send = serve((req, res) => {
    res.setHeader("X-A", "kept");
    res.setHeader("X-B", "replaced");
    equal(res.writeHead(201, "Made", { "X-B": "b", "Set-Cookie": ["c=1", "d=2"] }) === res, true);
    throws("Error", () => res.setHeader("X-C", "c"), "Cannot set headers after they are sent to the client");
    throws("Error", () => res.removeHeader("X-A"), "Cannot remove headers");
    equal(throws("Error", () => res.writeHead(200)).code, "ERR_HTTP_HEADERS_SENT");
    res.end();
  });
  const response = await send();
  equal([response.status, response.statusText, response.headers.get("x-a"), response.headers.get("x-b"), response.headers.getSetCookie()],
    [201, "Made", "kept", "b", ["c=1", "d=2"]]);
  const flat = await serve((req, res) => res.writeHead(200, ["A", "1", "A", "2"]).end())();
  equal(flat.headers.get("a"), "1, 2");
  await rejects("RangeError", serve((req, res) => res.writeHead(1000))(), "Invalid status code: 1000");
});

check("headers of a response can be read and changed until they are sent", async () => {
  const send = serve((req, res) => {
    res.setHeader("One", 1).setHeader("Two", ["a", "b"]);
    res.appendHeader("Two", "c");
    res.setHeaders(new Map([["Three", "3"]]));
    equal([res.getHeader("one"), res.getHeader("TWO"), res.hasHeader("three"), res.getHeaderNames(), res.getRawHeaderNames()],
      [1, ["a", "b", "c"], true, ["one", "two", "three"], ["One", "Two", "Three"]]);
    equal(res.getHeaders(), { one: 1, two: ["a", "b", "c"], three: "3" });
    res.removeHeader("ONE");
    res.setHeader("Connection", "close");
    equal(throws("TypeError", () => res.setHeader("a b", 1)).code, "ERR_INVALID_HTTP_TOKEN");
    equal(throws("TypeError", () => res.setHeader("a", undefined)).code, "ERR_HTTP_INVALID_HEADER_VALUE");
    equal(throws("TypeError", () => res.setHeader("a", "b\r\nc: d")).code, "ERR_INVALID_CHAR");
    res.end("x");
  });
  const response = await send();
  equal([...response.headers], [["content-length", "1"], ["three", "3"], ["two", "a, b, c"]]);
  throws("TypeError", () => validateHeaderName(""));
  throws("TypeError", () => validateHeaderValue("a", "\0"));
});

check("a response that continues after a tick is a stream with backpressure", async () => {
  let drained = 0;
  const send = serve(async (req, res) => {
    res.on("drain", () => drained++);
    res.write("first ");
    await new Promise((resolve) => setTimeout(resolve, 1));
    let room = true;
    while (room) room = res.write("x".repeat(65536));
    await once(res, "drain");
    res.end(" last");
  });
  const response = await send();
  equal([response.headers.get("content-length")], [null]);
  const text = await response.text();
  equal([text.startsWith("first x"), text.endsWith("x last"), drained], [true, true, 1]);
});

check("flushHeaders sends the headers before the body", async () => {
  let finish;
  const send = serve((req, res) => {
    res.statusCode = 202;
    res.flushHeaders();
    equal(res.headersSent, true);
    finish = () => res.end("later");
  });
  const response = await send();
  equal(response.status, 202);
  finish();
  equal(await response.text(), "later");
});

check("a response to HEAD, and of status 204 and 304, has no body", async () => {
  const send = serve((req, res) => {
    res.statusCode = Number(req.url.slice(1));
    res.end("body");
  });
  const head = await send("/200", { method: "HEAD" });
  equal([head.headers.get("content-length"), await head.text()], ["4", ""]);
  for (const status of [204, 304]) {
    const response = await send(`/${status}`);
    equal([response.status, response.body, response.headers.get("content-length")], [status, null, null]);
  }
});

check("a response finishes and closes once it has ended", async () => {
  const seen = [];
  const send = serve((req, res) => {
    for (const type of ["prefinish", "finish", "close"]) res.on(type, () => seen.push(type));
    finished(res, (error) => seen.push(["finished", error ?? null]));
    req.resume();
    res.end("x", "utf8", () => seen.push("callback"));
  });
  await (await send()).text();
  await new Promise((resolve) => setTimeout(resolve, 1));
  equal(seen.filter((type) => typeof type === "string"), ["prefinish", "callback", "finish", "close"]);
  equal(seen.some((type) => type[0] === "finished" && type[1] === null), true);
});

check("a response that is destroyed fails the request, or breaks its body", async () => {
  await rejects("Error", serve((req, res) => res.destroy())(), "destroyed before it was sent");
  await rejects("TypeError", serve((req, res) => res.destroy(new TypeError("mine")))(), "mine");
  const response = await serve(async (req, res) => {
    res.write("x");
    await new Promise((resolve) => setTimeout(resolve, 1));
    res.on("error", () => {});
    res.destroy(new RangeError("half"));
  })();
  await rejects("RangeError", response.text(), "half");
  await rejects("TypeError", serve(() => { throw new TypeError("thrown"); })(), "thrown");
});

check("a client that disconnects closes the request and the response", async () => {
  const controller = new AbortController();
  const seen = [];
  const response = await serve((req, res) => {
    req.on("aborted", () => seen.push("aborted")).on("close", () => seen.push("request"));
    res.on("close", () => seen.push("response"));
    res.write("x");
  })("/", { method: "POST", body: new ReadableStream(), signal: controller.signal });
  controller.abort();
  await new Promise((resolve) => setTimeout(resolve, 1));
  equal(seen.sort(), ["aborted", "request", "response"]);
  await rejects("AbortError", response.text());
});

check("a server listens on a port until it is closed", async () => {
  const server = createServer((req, res) => res.end("it"));
  equal([server instanceof Server, server.listening, server.address()], [true, false, null]);
  const seen = [];
  server.listen(0, () => seen.push("callback")).on("listening", () => seen.push("event"));
  equal(server.listening, true);
  throws("Error", () => server.listen(1), "more than once");
  await once(server, "listening");
  const { port, family } = server.address();
  equal([seen, port > 1023, family], [["callback", "event"], true, "IPv4"]);
  equal(await (await handleAsNodeRequest({ port }, new Request("http://a/"))).text(), "it");
  const other = createServer().listen(port);
  const [error] = await once(other, "error");
  equal([error.code, other.listening], ["EADDRINUSE", false]);
  await new Promise((resolve) => server.close(resolve));
  equal([server.listening, (await rejects("Error", handleAsNodeRequest(port, new Request("http://a/")))).code], [false, "ERR_INVALID_ARG_VALUE"]);
  throws("RangeError", () => server.listen(65536), "65536");
  equal((await new Promise((resolve) => server.close(resolve))).code, "ERR_SERVER_NOT_RUNNING");
});

check("httpServerHandler returns a handler for a port or a server", async () => {
  const server = createServer((req, res) => res.end(req.url));
  const handler = httpServerHandler(server, { scheduled() {} });
  equal([server.listening, typeof handler.scheduled], [true, "function"]);
  equal(await (await handler.fetch(new Request("http://a/path"))).text(), "/path");
  equal(await (await httpServerHandler({ port: server.address().port }).fetch(new Request("http://a/b"))).text(), "/b");
  throws("TypeError", () => httpServerHandler({}));
  await rejects("TypeError", handleAsNodeRequest(server, "http://a/"));
});

check("constructor functions can inherit from messages and servers", async () => {
  function Mine(...args) { ServerResponse.call(this, ...args); }
  Object.setPrototypeOf(Mine.prototype, ServerResponse.prototype);
  class Request_ extends IncomingMessage { get kind() { return "mine"; } }
  const send = serve((req, res) => res.end(`${req.kind} ${res instanceof Mine}`), { IncomingMessage: Request_, ServerResponse: Mine });
  equal(await (await send()).text(), "mine true");
});

check("functions that replace writeHead, write and end are called", async () => {
  const response = await serve((req, res) => {
    const { end, writeHead } = res;
    res.writeHead = function (...args) { this.setHeader("x-hooked", "yes"); return writeHead.apply(this, args); };
    res.end = function (chunk, ...rest) { return end.call(this, `<${chunk}>`, ...rest); };
    res.end("x");
  })();
  equal([response.headers.get("x-hooked"), await response.text()], ["yes", "<x>"]);
});

about("node:http clients");

check("a request takes a URL, options or both", () => {
  const made = (...args) => {
    const sent = request(...args);
    sent.on("error", () => {}).destroy();
    return [sent.method, sent.protocol, sent.host, sent.path, sent.getHeader("host")];
  };
  equal(made("http://a.test:81/b?c"), ["GET", "http:", "a.test", "/b?c", "a.test:81"]);
  equal(made(new URL("http://a.test/"), { method: "post", path: "/x" }), ["POST", "http:", "a.test", "/x", "a.test"]);
  equal(made({ hostname: "a.test", port: 80, path: "no-slash" }), ["GET", "http:", "a.test", "no-slash", "a.test"]);
  equal(made({ host: "::1", port: "8080" }), ["GET", "http:", "::1", "/", "[::1]:8080"]);
  const login = request("http://u:p%40@a.test/").on("error", () => {});
  equal(login.getHeader("authorization"), `Basic ${btoa("u:p@")}`);
  login.destroy();
  equal(https.request({ host: "a.test" }).on("error", () => {}).destroy().protocol, "https:");
});

check("a request refuses what would change its target", () => {
  equal(throws("TypeError", () => request("http://a.test", { path: "/a b" })).code, "ERR_UNESCAPED_CHARACTERS");
  equal(throws("TypeError", () => request({ host: "a.test/@b.test" })).code, "ERR_INVALID_ARG_VALUE");
  equal(throws("TypeError", () => request({ host: "a@b.test" })).code, "ERR_INVALID_ARG_VALUE");
  equal(throws("TypeError", () => request({ protocol: "ftp:" })).code, "ERR_INVALID_PROTOCOL");
  equal(throws("TypeError", () => request({ method: "A B" })).code, "ERR_INVALID_HTTP_TOKEN");
  equal(throws("TypeError", () => request({ headers: { a: "\n" } })).code, "ERR_INVALID_CHAR");
});

check("a failed request emits an error with a code, and closes", async () => {
  const sent = get("http://nothing.invalid/");
  equal([sent instanceof ClientRequest, sent.writableEnded], [true, true]);
  const seen = [];
  sent.on("close", () => seen.push("close"));
  const [error] = await once(sent, "error");
  equal([error instanceof Error, typeof error.code, sent.destroyed], [true, "string", true]);
  await new Promise((resolve) => setTimeout(resolve, 1));
  equal(seen, ["close"]);
});

check("a request that is destroyed before its response hangs up", async () => {
  const sent = request("http://nothing.invalid/");
  sent.destroy();
  const [error] = await once(sent, "error");
  equal([error.code, error.message], ["ECONNRESET", "socket hang up"]);
  const controller = new AbortController();
  const aborted = request("http://nothing.invalid/", { signal: controller.signal });
  controller.abort();
  equal((await once(aborted, "error"))[0].name, "AbortError");
  const waits = request("http://nothing.invalid/", { timeout: 1 });
  await once(waits, "timeout");
  waits.on("error", () => {}).destroy();
});

check("a request emits its socket, which has the methods of one", async () => {
  const sent = request("http://nothing.invalid/").on("error", () => {});
  const [socket] = await once(sent, "socket");
  equal([socket.setKeepAlive(true, 1) === socket, socket.setNoDelay() === socket, socket.encrypted], [true, true, false]);
  sent.destroy();
});
