// Response (Fetch §5.5), and its conversion to the parts that native code sends.
//: eager, after body.js
(function (internal) {
  "use strict";

  const { JSONStringify, RangeError, RegExpPrototypeExec, TypeError } = internal.primordials;
  const { ByteString, USVString, dictionary, expose, isObject, needs, unsigned } = internal.webidl;
  const { headers: { fill, lookup, wrap }, body: bodies } = internal;

  // Matches any character except tab, visible ASCII, space and obs-text.
  const NOT_REASON = /[^\t\x20-\x7e\x80-\xff]/;

  const isNullBody = (status) => status === 101 || status === 103 || status === 204 || status === 205 || status === 304;

  const record = (status, list, body) => ({
    status, statusText: "", list, headers: null, immutable: false, body, type: "default", url: "", redirected: false,
    socket: null,
  });

  // `body` is a body or null; `type` is its content type or null.
  function construct(body, type, init) {
    const r = record(200, [], body);
    if (init !== undefined && init !== null) {
      const { headers, status, statusText, webSocket } = dictionary(init, "Response");
      if (headers !== undefined) fill(r.list, headers);
      if (status !== undefined) {
        r.status = unsigned(status, 16);
        const isUpgrade = r.status === 101 && webSocket !== undefined && webSocket !== null;
        if ((r.status < 200 || r.status > 599) && !isUpgrade) {
          throw new RangeError(`Response: the status ${r.status} is not in the range 200 to 599`);
        }
      }
      if (webSocket !== undefined && webSocket !== null) {
        if (!internal.webSockets().isWebSocket(webSocket)) throw new TypeError("Response: webSocket is not a WebSocket");
        if (r.status !== 101) throw new RangeError("Response: a response with a webSocket must have the status 101");
        r.socket = webSocket;
      }
      if (statusText !== undefined) {
        r.statusText = ByteString(statusText, "Response");
        if (RegExpPrototypeExec(NOT_REASON, r.statusText) !== null) {
          throw new TypeError("Response: the status text has invalid characters");
        }
      }
    }
    if (body !== null) {
      if (isNullBody(r.status)) throw new TypeError(`Response: a response of status ${r.status} cannot have a body`);
      if (type !== null && lookup(r.list, "content-type") === null) {
        // An array literal defines its elements, so that it calls no setter that a Worker has
        // defined on `Array.prototype`.
        if (r.list.length === 0) {
          r.list = ["content-type", type];
        } else {
          r.list[r.list.length] = "content-type";
          r.list[r.list.length] = type;
        }
      }
    }
    return r;
  }

  const WRAP = { __proto__: null };
  let isResponse;
  let recordOf;

  class Response {
    #r;

    static {
      isResponse = (value) => isObject(value) && #r in value;
      recordOf = (response) => response.#r;
    }

    constructor(body = null, init = undefined) {
      if (body === WRAP) {
        this.#r = init;
        return;
      }
      const made = body === null ? null : bodies.extract(body);
      this.#r = construct(made, made === null ? null : made.type, init);
    }

    static error() {
      const r = record(0, [], null);
      r.type = "error";
      r.immutable = true;
      return new Response(WRAP, r);
    }

    static json(data, init = undefined) {
      needs(arguments.length, 1, "Response.json");
      const text = JSONStringify(data);
      if (text === undefined) throw new TypeError("Response.json: the value has no JSON form");
      return new Response(WRAP, construct(bodies.of(text, null), "application/json", init));
    }

    static redirect(url, status = 302) {
      needs(arguments.length, 1, "Response.redirect");
      const input = USVString(url);
      const href = internal.parseUrl(input);
      if (href === null) throw new TypeError(`Response.redirect: '${input}' is not an absolute URL`);
      const code = unsigned(status, 16);
      if (code !== 301 && code !== 302 && code !== 303 && code !== 307 && code !== 308) {
        throw new RangeError(`Response.redirect: ${code} is not the status of a redirect`);
      }
      const r = record(code, ["location", href], null);
      r.immutable = true;
      return new Response(WRAP, r);
    }

    get type() {
      return this.#r.type;
    }
    get url() {
      return this.#r.url;
    }
    get redirected() {
      return this.#r.redirected;
    }
    get status() {
      return this.#r.status;
    }
    get ok() {
      const { status } = this.#r;
      return status >= 200 && status <= 299;
    }
    get statusText() {
      return this.#r.statusText;
    }
    get headers() {
      const r = this.#r;
      return (r.headers ??= wrap(r.list, r.immutable));
    }

    // An extension of Cloudflare Workers: the WebSocket of a response with status 101, or null.
    get webSocket() {
      return this.#r.socket;
    }

    clone() {
      const r = this.#r;
      if (r.socket !== null) throw new TypeError("Response.clone: a response with a webSocket cannot be cloned");
      const body = bodies.clone(r.body);
      const list = [];
      for (let i = 0; i < r.list.length; i++) list[i] = r.list[i];
      const copy = record(r.status, list, body);
      copy.statusText = r.statusText;
      copy.immutable = r.immutable;
      copy.type = r.type;
      copy.url = r.url;
      copy.redirected = r.redirected;
      return new Response(WRAP, copy);
    }
  }
  bodies.mixin(Response, (response) => recordOf(response).body);
  expose(Response);
  internal.globals({ Response });

  // Returns the parts of a handler's answer: [status, header list, source, stream], after which the
  // body counts as used. The last two are the body's source and its stream, at least one of which
  // is null. If the response has a WebSocket, the WebSocket is the source. Calls nothing that a
  // Worker could have replaced.
  internal.responseParts = (value) => {
    if (!isResponse(value)) {
      const what = value === undefined ? "nothing" : value === null ? "null" : `a value of type ${typeof value}`;
      throw new TypeError(`The handler returned ${what} instead of a Response`);
    }
    const r = recordOf(value);
    if (r.type === "error") throw new TypeError("The handler returned Response.error()");
    if (r.socket !== null) return [r.status, r.list, r.socket, null];
    if (r.body === null) return [r.status, r.list, null, null];
    const source = bodies.take(r.body);
    if (source === null) bodies.declareLength(r.list, r.body.stream);
    return [r.status, r.list, source, source === null ? r.body.stream : null];
  };
  // Creates a Response from the parts of a received response.
  internal.newResponse = ({ status, statusText, url, redirected, list, body, socket }) => {
    const r = record(status, list, body);
    if (socket !== null) r.socket = internal.webSockets().ofLink(socket);
    r.statusText = statusText;
    r.url = url;
    r.redirected = redirected;
    r.type = "basic";
    r.immutable = true;
    return new Response(WRAP, r);
  };

  // Creates a Response with another body. It has the status and the headers of `r`, except
  // Content-Length.
  internal.responseWith = (r, body) => {
    const list = [];
    for (let i = 0; i < r.list.length; i += 2) {
      if (r.list[i] === "content-length") continue;
      list[list.length] = r.list[i];
      list[list.length] = r.list[i + 1];
    }
    const copy = record(r.status, list, body);
    copy.statusText = r.statusText;
    return new Response(WRAP, copy);
  };

  // Returns the record {status, statusText, list, …} of a value for which `isResponse` is true.
  internal.responseRecord = recordOf;

  internal.isResponse = isResponse;
  internal.describe("Response", isResponse, Response, [
    "status", "statusText", "headers", "ok", "redirected", "type", "url", "bodyUsed",
  ]);
})
