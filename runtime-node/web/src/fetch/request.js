// Request (Fetch §5.4). At first, an incoming request is nothing but one record: its URL is parsed,
// and its Headers and signal are created, on first use.
//: eager, after body.js
(function (internal) {
  "use strict";

  const { ObjectFreeze, RegExpPrototypeExec, StringPrototypeToUpperCase, TypeError } = internal.primordials;
  const { ByteString, DOMString, USVString, dictionary, enumeration, expose, isObject, needs } = internal.webidl;
  const { headers: { fill, lookup, wrap }, body: bodies } = internal;

  const NOT_TOKEN = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]/;

  function normalMethod(value) {
    const method = ByteString(value, "Request");
    if (method === "" || RegExpPrototypeExec(NOT_TOKEN, method) !== null) {
      throw new TypeError(`Request: '${method}' is not a method`);
    }
    const upper = StringPrototypeToUpperCase(method);
    switch (upper) {
      case "CONNECT": case "TRACE": case "TRACK":
        throw new TypeError(`Request: the method ${method} is not allowed`);
      case "DELETE": case "GET": case "HEAD": case "OPTIONS": case "POST": case "PUT":
        return upper;
      default:
        return method;
    }
  }

  const ALLOWED = {
    __proto__: null,
    cache: ["default", "no-store", "reload", "no-cache", "force-cache", "only-if-cached"],
    credentials: ["omit", "same-origin", "include"],
    duplex: ["half"],
    mode: ["navigate", "same-origin", "no-cors", "cors"],
    priority: ["high", "low", "auto"],
    redirect: ["follow", "error", "manual"],
    referrerPolicy: [
      "", "no-referrer", "no-referrer-when-downgrade", "same-origin", "origin", "strict-origin",
      "origin-when-cross-origin", "strict-origin-when-cross-origin", "unsafe-url",
    ],
  };

  // The attributes besides method, URL, headers and body. Requests that set none of these
  // attributes share this object.
  /** @type {Record<string, any>} */
  const DEFAULTS = ObjectFreeze({
    __proto__: null,
    cache: "default",
    credentials: "same-origin",
    integrity: "",
    keepalive: false,
    mode: "cors",
    redirect: "follow",
    referrer: "about:client",
    referrerPolicy: "",
  });

  // The attributes of incoming requests: if a Worker forwards such a request, a redirect is passed
  // on to the Worker's own client, which may follow it.
  const INCOMING = ObjectFreeze({ __proto__: null, ...DEFAULTS, redirect: "manual" });

  function optionsFrom(init, base) {
    const made = { __proto__: null };
    for (const key in base) made[key] = base[key];
    for (const key in ALLOWED) {
      const value = init[key];
      if (value !== undefined) made[key] = enumeration(value, ALLOWED[key], `Request: ${key}`);
    }
    if (made.mode === "navigate") throw new TypeError("Request: the mode 'navigate' is not allowed");
    if (made.cache === "only-if-cached" && made.mode !== "same-origin") {
      throw new TypeError("Request: the cache 'only-if-cached' needs the mode 'same-origin'");
    }
    const { integrity, keepalive, referrer } = init;
    if (integrity !== undefined) made.integrity = DOMString(integrity);
    if (keepalive !== undefined) made.keepalive = !!keepalive;
    if (referrer !== undefined) made.referrer = referrerFrom(USVString(referrer));
    return made;
  }

  function referrerFrom(string) {
    if (string === "") return "";
    const href = internal.parseUrl(string);
    if (href === null) throw new TypeError(`Request: the referrer '${string}' is not a URL`);
    return href;
  }

  function urlFrom(value) {
    const input = USVString(value);
    const href = internal.parseUrl(input);
    if (href === null) throw new TypeError(`Request: '${input}' is not an absolute URL`);
    if (internal.urlHasCredentials(href)) throw new TypeError("Request: the URL must not carry credentials");
    return href;
  }

  // Creates a request's record. `parsed` is set if `url` is known to be a serialized URL. `list` is
  // the header list, or a function that returns it on first use.
  const record = (method, url, list, body) => ({
    method, url, parsed: false, list, headers: null, immutable: false, body, signal: null, options: DEFAULTS,
    invocation: null,
  });

  const listOf = (r) => (typeof r.list === "function" ? (r.list = r.list()) : r.list);

  function hrefOf(r) {
    if (!r.parsed) {
      r.url = internal.parseUrl(r.url) ?? r.url;
      r.parsed = true;
    }
    return r.url;
  }

  function construct(input, init) {
    let r;
    const from = isRequest(input) ? recordOf(input) : null;
    if (from !== null) {
      const list = [];
      const source = listOf(from);
      for (let i = 0; i < source.length; i++) list[i] = source[i];
      r = record(from.method, hrefOf(from), list, null);
      r.options = from.options;
    } else {
      r = record("GET", urlFrom(input), [], null);
    }
    r.parsed = true;

    const {
      body, cache, credentials, duplex, headers, integrity, keepalive, method, mode, priority, redirect, referrer,
      referrerPolicy, signal, window,
    } = init;
    if (window !== undefined && window !== null) throw new TypeError("Request: window can only be null");
    r.options = optionsFrom({
      __proto__: null, cache, credentials, duplex, integrity, keepalive, mode, priority, redirect, referrer, referrerPolicy,
    }, r.options);
    if (method !== undefined) r.method = normalMethod(method);
    if (signal !== undefined && signal !== null && !internal.abort().isAbortSignal(signal)) {
      throw new TypeError("Request: signal is not an AbortSignal");
    }
    if (headers !== undefined) fill(r.list = [], headers);

    const given = body !== undefined && body !== null;
    if ((given || (from !== null && from.body !== null)) && (r.method === "GET" || r.method === "HEAD")) {
      throw new TypeError(`Request: a ${r.method} request cannot have a body`);
    }
    if (given) {
      // The standard requires `duplex: "half"` with a stream. Here, `duplex` is optional: it has no
      // other value, and Workers that forward the body of the incoming request omit it.
      r.body = bodies.extract(body);
      if (r.body.type !== null && lookup(r.list, "content-type") === null) {
        r.list[r.list.length] = "content-type";
        r.list[r.list.length] = r.body.type;
      }
    } else if (from !== null && from.body !== null) {
      // The body moves: the other Request then counts as used.
      r.body = bodies.move(from.body);
    }

    if (signal !== undefined && signal !== null) r.signal = internal.abort().dependentSignal([signal]);
    else if (signal === undefined && from !== null) r.signal = internal.abort().dependentSignal([signalOf(from)]);
    return r;
  }

  const signalOf = (r) => {
    if (r.signal === null) {
      r.signal = internal.abort().newSignal();
      if (r.invocation !== null) internal.ops.onClientLeft(r.invocation, () => abortForClient(r.signal));
    }
    return r.signal;
  };

  const abortForClient = (signal) => {
    const { DOMException } = internal.exceptions();
    internal.abort().abort(signal, new DOMException("The client disconnected", "AbortError"));
  };

  const WRAP = { __proto__: null };
  let isRequest;
  let recordOf;

  class Request {
    #r;

    static {
      isRequest = (value) => isObject(value) && #r in value;
      recordOf = (request) => request.#r;
    }

    constructor(input, init = undefined) {
      if (input === WRAP) {
        this.#r = init;
        return;
      }
      needs(arguments.length, 1, "Request");
      this.#r = construct(input, dictionary(init, "Request"));
    }

    get method() {
      return this.#r.method;
    }
    get url() {
      return hrefOf(this.#r);
    }
    get headers() {
      const r = this.#r;
      return (r.headers ??= wrap(listOf(r), r.immutable));
    }
    get destination() {
      this.#r; // a brand check
      return "";
    }
    get referrer() {
      return this.#r.options.referrer;
    }
    get referrerPolicy() {
      return this.#r.options.referrerPolicy;
    }
    get mode() {
      return this.#r.options.mode;
    }
    get credentials() {
      return this.#r.options.credentials;
    }
    get cache() {
      return this.#r.options.cache;
    }
    get redirect() {
      return this.#r.options.redirect;
    }
    get integrity() {
      return this.#r.options.integrity;
    }
    get keepalive() {
      return this.#r.options.keepalive;
    }
    get signal() {
      return signalOf(this.#r);
    }
    get duplex() {
      this.#r; // a brand check
      return "half";
    }

    clone() {
      const r = this.#r;
      const body = bodies.clone(r.body);
      const list = [];
      const source = listOf(r);
      for (let i = 0; i < source.length; i++) list[i] = source[i];
      const copy = record(r.method, r.url, list, body);
      copy.parsed = r.parsed;
      copy.options = r.options;
      copy.immutable = r.immutable;
      copy.signal = internal.abort().dependentSignal([signalOf(r)]);
      return new Request(WRAP, copy);
    }
  }
  bodies.mixin(Request, (request) => recordOf(request).body);
  expose(Request);
  internal.globals({ Request });

  // Creates an incoming request, which `invocation` answers. `url` is absolute; `headers` is a
  // header list or a function that returns one; `body` is a body's source, or null.
  internal.newRequest = (invocation, method, url, headers, body) => {
    const r = record(method, url, headers, body === null ? null : bodies.of(body, null));
    r.immutable = true;
    r.options = INCOMING;
    r.invocation = invocation;
    return new Request(WRAP, r);
  };

  // Returns the record of a Request with these arguments, in order to send it.
  internal.requestRecord = (input, init) => construct(input, dictionary(init, "fetch"));

  // Returns {method, url, list} of a Request, or of the Request that could be created from a value.
  internal.requestHead = (input) => {
    const r = isRequest(input) ? recordOf(input) : construct(input, dictionary(undefined, "Request"));
    return { __proto__: null, method: r.method, url: hrefOf(r), list: listOf(r) };
  };

  // Returns the parts of a Request from which `requestOf` makes a copy.
  internal.requestParts = (request) => {
    const r = recordOf(request);
    return { __proto__: null, method: r.method, url: hrefOf(r), list: listOf(r), redirect: r.options.redirect, body: r.body };
  };
  internal.requestOf = ({ method, url, list, redirect, body }) => {
    const r = record(normalMethod(method), urlFrom(url), list, body);
    r.options = optionsFrom({ __proto__: null, redirect }, DEFAULTS);
    return new Request(WRAP, r);
  };

  internal.isRequest = isRequest;
  internal.describe("Request", isRequest, Request, ["method", "url", "headers", "bodyUsed"]);
})
