// node:http: ClientRequest, a request that is sent with `fetch`.
//
// A request that ends in the tick of its first write is sent with a complete body. Any other
// request is sent after that tick, with a stream as its body. Redirects are not followed. As with
// `fetch`, content codings are decoded, and the headers of the response describe the decoded body.
//: module
(function (internal) {
  "use strict";

  const { ArrayIsArray, Error, ObjectSetPrototypeOf, ReflectApply, Symbol, TypeError } = internal.primordials;

  internal.define("httpClient", () => {
    const { abortError, badValue, coded, defineHidden, invalid, needFunction, needSignal } = internal.node;
    const { lazy } = internal.hooks;
    const { Headers, URL, clearTimeout, setTimeout } = internal.platform;
    const { Buffer } = internal.use("buffer");
    const { nextTick } = internal.use("process");
    const STATUS_CODES = internal.use("httpStatus");
    const newSocket = internal.use("httpSocket");
    const { IncomingMessage, receive } = internal.use("httpIncoming");
    const { DELIVER, OutgoingMessage, listOf } = internal.use("httpOutgoing");

    const TARGET = Symbol("url");
    const CONTROLLER = Symbol("controller");
    const TIMER = Symbol("timer");
    const NOT_PATH = /[^\x21-\xff]/;
    const NOT_TOKEN = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]/;

    // The methods whose requests have no body unless the program writes one.
    const BODILESS = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "TRACE"];

    // Converts a URL to options.
    function optionsOf(url) {
      const { hash, hostname, href, password, pathname, port, protocol, search, username } = url;
      return {
        protocol, hostname: hostname[0] === "[" ? hostname.slice(1, -1) : hostname, hash, search, pathname, href, path: pathname + search,
        ...(port !== "" && { port: Number(port) }),
        ...((username || password) && { auth: `${decodeURIComponent(username)}:${decodeURIComponent(password)}` }),
      };
    }

    // Returns the URL of the origin. Throws if `host` contains other parts of a URL than the host.
    function originOf(protocol, host, port) {
      const literal = host.includes(":") && host[0] !== "[" ? `[${host}]` : host;
      let url = null;
      try {
        url = new URL(`${protocol}//${literal}${port === undefined ? "" : `:${port}`}`);
      } catch {
        // The error is reported below.
      }
      if (url === null || url.pathname !== "/" || url.search !== "" || url.hash !== "" || url.username !== "" || url.password !== "") {
        throw badValue("options.host", host, "is not a valid host");
      }
      return url.origin;
    }

    /** @returns {void} */
    function ClientRequest(input, options, callback, defaults = { protocol: "http:", agent: undefined }) {
      // The request is destroyed when its response closes.
      ReflectApply(OutgoingMessage, this, [{ autoDestroy: false }]);
      if (typeof input === "string") input = optionsOf(new URL(input));
      else if (internal.isURL(input)) input = optionsOf(input);
      else {
        callback = options;
        options = input;
        input = null;
      }
      if (typeof options === "function") {
        callback = options;
        options = undefined;
      }
      const given = { ...input, ...options };

      const agent = given.agent === undefined || given.agent === null ? defaults.agent
        : given.agent === false ? new defaults.agent.constructor() : given.agent;
      if (agent !== undefined && typeof agent.addRequest !== "function" && typeof agent.getName !== "function") {
        throw invalid("options.agent", "an instance of Agent-like Object, or undefined, or false", given.agent);
      }
      const protocol = given.protocol || agent?.protocol || defaults.protocol;
      if (protocol !== "http:" && protocol !== "https:") {
        throw coded(TypeError, "ERR_INVALID_PROTOCOL", `Protocol "${protocol}" not supported. Expected "${defaults.protocol}"`);
      }
      const path = given.path ? `${given.path}` : "/";
      if (NOT_PATH.test(path)) throw coded(TypeError, "ERR_UNESCAPED_CHARACTERS", "Request path contains unescaped characters");
      const method = given.method === undefined || given.method === null ? "GET" : given.method;
      if (typeof method !== "string") throw invalid("options.method", "of type string", method);
      if (NOT_TOKEN.test(method)) throw coded(TypeError, "ERR_INVALID_HTTP_TOKEN", `Method must be a valid HTTP token ["${method}"]`);
      const host = given.hostname || given.host || "localhost";
      if (typeof host !== "string") throw invalid("options.host", "of type string, undefined or null", host);
      const port = given.port || given.defaultPort;

      this.agent = agent;
      this.method = method.toUpperCase();
      this.path = path;
      this.host = host;
      this.protocol = protocol;
      this.aborted = false;
      this.maxHeadersCount = null;
      this.res = null;
      this.reusedSocket = false;
      this.timeout = undefined;
      this.useChunkedEncodingByDefault = !BODILESS.includes(this.method);
      defineHidden(this, {
        [TARGET]: originOf(protocol, host, port || undefined) + (path[0] === "/" ? path : `/${path}`),
        [CONTROLLER]: null,
        [TIMER]: undefined,
      });
      // The URL of `OPTIONS *` is the origin without a path.
      if (path === "*") this[TARGET] = originOf(protocol, host, port || undefined);

      setAll(this, given.headers);
      if (given.auth && !this.hasHeader("authorization")) {
        this.setHeader("Authorization", `Basic ${Buffer.from(`${given.auth}`).toString("base64")}`);
      }
      if (!this.hasHeader("host") && given.setHost !== false) this.setHeader("Host", new URL(this[TARGET]).host);

      if (callback !== undefined) this.once("response", needFunction(callback, "callback"));
      if (given.timeout !== undefined) this.setTimeout(given.timeout);
      if (given.signal) {
        needSignal(given.signal, "options.signal");
        const { isAborted, onAbort } = internal.abort();
        if (isAborted(given.signal)) nextTick(() => this.destroy(abortError(given.signal)));
        else this.once("close", onAbort(given.signal, () => this.destroy(abortError(given.signal))));
      }
      nextTick(() => {
        if (this.destroyed) return;
        this.socket = newSocket({ encrypted: protocol === "https:", remotePort: port, servername: host });
        this.emit("socket", this.socket);
      });
    }
    ObjectSetPrototypeOf(ClientRequest.prototype, OutgoingMessage.prototype);
    ObjectSetPrototypeOf(ClientRequest, OutgoingMessage);

    function setAll(request, headers) {
      if (ArrayIsArray(headers)) {
        const pairs = ArrayIsArray(headers[0]) ? headers.flat() : headers;
        if (pairs.length % 2 !== 0) throw badValue("options.headers", headers);
        for (let i = 0; i < pairs.length; i += 2) request.appendHeader(pairs[i], pairs[i + 1]);
      } else if (headers) {
        for (const name of Object.keys(headers)) request.setHeader(name, headers[name]);
      }
    }

    defineHidden(ClientRequest.prototype, {
      _implicitHeader() {
        this._header = `${this.method} ${this.path} HTTP/1.1\r\n`;
        if (`${this.getHeader("expect") ?? ""}`.toLowerCase() === "100-continue") nextTick(() => this.emit("continue"));
      },
      [DELIVER](body) {
        const list = listOf(this);
        const headers = new Headers();
        const isBodiless = this.method === "GET" || this.method === "HEAD";
        for (let i = 0; i < list.length; i += 2) {
          // `fetch` itself sets the host, and the length of a complete body.
          if (list[i] === "host" || (list[i] === "content-length" && (body === null || body.length !== undefined))) continue;
          headers.append(list[i], list[i + 1]);
        }
        if (isBodiless && body !== null) {
          this.destroy(coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", `A ${this.method} request with a body cannot be sent from a Worker`));
          return;
        }
        this[CONTROLLER] = new (lazy("AbortController"))();
        const { signal } = this[CONTROLLER];
        const init = { method: this.method, headers, body, duplex: "half", redirect: "manual", signal };
        lazy("fetch")(this[TARGET], init).then((response) => respond(this, response), (error) => {
          if (!this.destroyed) this.destroy(failureOf(error, this));
        });
      },
      _destroy(error, callback) {
        clearTimeout(this[TIMER]);
        if (this.res === null) {
          error ??= coded(Error, "ECONNRESET", "socket hang up");
        } else if (!this.res.complete) this.res.destroy(error ?? coded(Error, "ECONNRESET", "aborted"));
        if (this.res === null || !this.res.complete) this[CONTROLLER]?.abort(error);
        ReflectApply(OutgoingMessage.prototype._destroy, this, [error, callback]);
      },
      abort() {
        if (this.aborted) return;
        this.aborted = true;
        nextTick(() => this.emit("abort"));
        this.destroy();
      },
      clearTimeout(callback) {
        this.setTimeout(0, callback);
      },
      onSocket() {},
      setNoDelay() {},
      setSocketKeepAlive() {},
      setTimeout(milliseconds, callback = undefined) {
        if (callback) this.once("timeout", callback);
        clearTimeout(this[TIMER]);
        this.timeout = milliseconds;
        if (milliseconds > 0 && !this.destroyed) this[TIMER] = setTimeout(() => this.emit("timeout"), milliseconds);
        return this;
      },
    });

    // The error code and the system call for each stage at which `fetch` fails.
    const CODES = {
      __proto__: null, connect: ["ECONNREFUSED", "connect"], policy: ["EACCES", "connect"], resolve: ["ENOTFOUND", "getaddrinfo"],
    };
    function failureOf(cause, request) {
      const [code, syscall] = CODES[cause?.cause?.stage] ?? ["ECONNRESET", "read"];
      const error = coded(Error, code, `${syscall} ${code} ${request.host}: ${cause?.message}`);
      return Object.assign(error, { syscall, hostname: request.host, cause });
    }

    function respond(request, response) {
      if (request.destroyed) {
        response.body?.cancel().catch(() => {});
        return;
      }
      const { list, status, statusText } = internal.responseRecord(response);
      const message = new IncomingMessage(request.socket);
      message.statusCode = status;
      message.statusMessage = statusText || STATUS_CODES[status] || "";
      message.req = request;
      message.url = "";
      request.res = message;
      receive(message, list, response.body, null);
      const finish = () => {
        clearTimeout(request[TIMER]);
        request.destroy();
      };
      message.once("close", finish);
      // The body is discarded if the request has no listener for its response.
      if (!request.emit("response", message)) message._dump();
    }

    return { ClientRequest };
  });
})
