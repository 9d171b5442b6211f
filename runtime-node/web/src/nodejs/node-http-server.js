// node:http: Server and ServerResponse, and cloudflare:node, which hands requests to a server.
//
// A server does not really listen on its port: the port is the number by which the Worker's handler
// finds the server.
//
//   export default httpServerHandler({ port })   a handler that calls
//   handleAsNodeRequest(port, request)           ─► "request" (IncomingMessage, ServerResponse)
//                                                ─► a promise of the Response
//: module
(function (internal) {
  "use strict";

  const {
    ArrayIsArray, Error, Map, ObjectSetPrototypeOf, Promise, RangeError, ReflectApply, Symbol, SymbolAsyncDispose, TypeError,
  } = internal.primordials;

  internal.define("httpServer", () => {
    const { badValue, coded, defineHidden, invalid, needFunction } = internal.node;
    const { Headers, Response, URL } = internal.platform;
    const { nextTick } = internal.use("process");
    const EventEmitter = internal.use("events");
    const STATUS_CODES = internal.use("httpStatus");
    const newSocket = internal.use("httpSocket");
    const { IncomingMessage, receive } = internal.use("httpIncoming");
    const { DELIVER, OutgoingMessage, alreadySent, listOf } = internal.use("httpOutgoing");

    // ---- Responses

    // The {resolve, reject} of the promise that `handle` returns, or null.
    const RESPOND = Symbol("respond");

    function ServerResponse(request, options) {
      ReflectApply(OutgoingMessage, this, [options]);
      this.req = request;
      this.statusCode = 200;
      this.statusMessage = undefined;
      this.sendDate = true;
      this._hasBody = request?.method !== "HEAD";
      defineHidden(this, { [RESPOND]: null });
    }
    ObjectSetPrototypeOf(ServerResponse.prototype, OutgoingMessage.prototype);
    ObjectSetPrototypeOf(ServerResponse, OutgoingMessage);

    const isBodiless = (status) => status === 204 || status === 205 || status === 304;

    defineHidden(ServerResponse.prototype, {
      writeHead(statusCode, reason, headers) {
        if (this._header !== null) throw alreadySent("write");
        const status = statusCode | 0;
        if (status < 100 || status > 999) {
          throw coded(RangeError, "ERR_HTTP_INVALID_STATUS_CODE", `Invalid status code: ${statusCode}`);
        }
        if (typeof reason === "string") this.statusMessage = reason;
        else {
          headers ??= reason;
          this.statusMessage ||= STATUS_CODES[status] ?? "unknown";
        }
        this.statusCode = status;
        if (ArrayIsArray(headers)) setAll(this, headers);
        else for (const name in headers) if (name !== "") this.setHeader(name, headers[name]);
        if (isBodiless(status)) this._hasBody = false;
        this._header = `HTTP/1.1 ${status} ${this.statusMessage}\r\n`;
        return this;
      },
      _implicitHeader() {
        this.writeHead(this.statusCode);
      },
      [DELIVER](body, isWhole) {
        const list = listOf(this);
        const headers = new Headers();
        for (let i = 0; i < list.length; i += 2) headers.append(list[i], list[i + 1]);
        // The length of a response to HEAD is that of the response to GET.
        const length = body === null ? this._contentLength : body.length;
        if (isWhole && length && !isBodiless(this.statusCode)) headers.set("content-length", `${length}`);
        const { statusCode: status, statusMessage: statusText } = this;
        const response = new Response(body, { status, statusText, headers });
        this[RESPOND]?.resolve(response);
      },
      _destroy(error, callback) {
        const reason = error ?? coded(Error, "ECONNRESET", "The response was destroyed before it was sent");
        this[RESPOND]?.reject(reason);
        // Without a listener, the disconnection of a client is not an error of the Worker.
        const shown = error && this.listenerCount("error") === 0 ? null : error;
        ReflectApply(OutgoingMessage.prototype._destroy, this, [error, () => callback(shown)]);
      },
      assignSocket(socket) {
        this.socket = socket;
        this.emit("socket", socket);
      },
      detachSocket() {
        this.socket = null;
      },
      // Only the final response can be sent.
      writeContinue(callback = undefined) {
        callback?.();
      },
      writeEarlyHints(hints, callback = undefined) {
        callback?.();
      },
      writeProcessing(callback = undefined) {
        callback?.();
      },
    });
    defineHidden(ServerResponse.prototype, { writeHeader: ServerResponse.prototype.writeHead });

    // Sets headers that are given as [name, value, …] or [[name, value], …]. All values of a name
    // are sent.
    function setAll(response, given) {
      const pairs = [];
      if (ArrayIsArray(given[0])) pairs.push(...given);
      else {
        if (given.length % 2 !== 0) throw badValue("headers", given);
        for (let i = 0; i < given.length; i += 2) pairs.push([given[i], given[i + 1]]);
      }
      for (const [name] of pairs) response.removeHeader(name);
      for (const [name, value] of pairs) response.appendHeader(name, value);
    }

    // ---- Servers

    // The servers that listen, by port.
    const listening = new Map();
    // The first port for servers that do not choose one.
    const FIRST = 49152;
    const PORTS = 65536;

    // The port of a server that listens, or 0.
    const PORT = Symbol("port");

    /** @returns {void} */
    function Server(options, listener) {
      if (!(this instanceof Server)) return new Server(options, listener);
      if (typeof options === "function") {
        listener = options;
        options = undefined;
      } else if (options !== undefined && options !== null && typeof options !== "object") {
        throw invalid("options", "of type object", options);
      }
      ReflectApply(EventEmitter, this, []);
      this.timeout = 0;
      this.keepAliveTimeout = options?.keepAliveTimeout ?? 5000;
      this.headersTimeout = options?.headersTimeout ?? 60_000;
      this.requestTimeout = options?.requestTimeout ?? 300_000;
      this.maxHeadersCount = null;
      this.maxRequestsPerSocket = 0;
      this.connections = 0;
      defineHidden(this, {
        [PORT]: 0,
        _requestClass: options?.IncomingMessage ?? IncomingMessage,
        _responseClass: options?.ServerResponse ?? ServerResponse,
      });
      if (listener) this.on("request", listener);
    }
    ObjectSetPrototypeOf(Server.prototype, EventEmitter.prototype);
    ObjectSetPrototypeOf(Server, EventEmitter);

    /** @returns {void} */
    function SecureServer(options, listener) {
      if (!(this instanceof SecureServer)) return new SecureServer(options, listener);
      ReflectApply(Server, this, [options, listener]);
    }
    ObjectSetPrototypeOf(SecureServer.prototype, Server.prototype);
    ObjectSetPrototypeOf(SecureServer, Server);

    function freePort() {
      for (let port = FIRST; port < PORTS; port++) if (!listening.has(port)) return port;
      throw coded(Error, "EADDRINUSE", "listen EADDRINUSE: all ports are in use");
    }

    function portOf(value) {
      const port = typeof value === "string" && value.trim() !== "" ? +value : value ?? 0;
      if (typeof port !== "number" || port % 1 !== 0 || port < 0 || port >= PORTS) {
        throw coded(RangeError, "ERR_SOCKET_BAD_PORT", `options.port should be >= 0 and < 65536. Received ${internal.inspect(value)}.`);
      }
      return port;
    }

    defineHidden(Server.prototype, {
      listen(...given) {
        const callback = typeof given[given.length - 1] === "function" ? given[given.length - 1] : null;
        const first = given[0] === callback ? undefined : given[0];
        const port = portOf(typeof first === "object" && first !== null ? first.port : first);
        if (this.listening) throw coded(Error, "ERR_SERVER_ALREADY_LISTEN", "Listen method has been called more than once without closing.");
        if (listening.has(port)) {
          const error = coded(Error, "EADDRINUSE", `listen EADDRINUSE: address already in use :::${port}`);
          nextTick(() => this.emit("error", Object.assign(error, { errno: -98, syscall: "listen", port })));
          return this;
        }
        if (callback !== null) this.once("listening", callback);
        this[PORT] = port === 0 ? freePort() : port;
        listening.set(this[PORT], this);
        nextTick(() => this.listening && this.emit("listening"));
        return this;
      },
      close(callback = undefined) {
        const wasListening = this.listening;
        if (callback !== undefined) {
          const error = wasListening ? undefined : coded(Error, "ERR_SERVER_NOT_RUNNING", "Server is not running.");
          this.once("close", () => needFunction(callback, "callback")(error));
        }
        listening.delete(this[PORT]);
        this[PORT] = 0;
        nextTick(() => this.emit("close"));
        return this;
      },
      get listening() {
        return this[PORT] !== 0;
      },
      address() {
        return this.listening ? { address: "127.0.0.1", family: "IPv4", port: this[PORT] } : null;
      },
      closeAllConnections() {},
      closeIdleConnections() {},
      getConnections(callback) {
        nextTick(callback, null, 0);
        return this;
      },
      setTimeout(milliseconds, callback = undefined) {
        if (typeof milliseconds === "number") this.timeout = milliseconds;
        if (callback) this.on("timeout", callback);
        return this;
      },
      ref() {
        return this;
      },
      unref() {
        return this;
      },
      async [SymbolAsyncDispose]() {
        if (this.listening) await new Promise((resolve) => this.close(resolve));
      },
    });

    // ---- Requests

    // Returns the address of the router's peer, which the router writes as the last one in
    // X-Forwarded-For.
    function peerOf(list) {
      let found;
      for (let i = 0; i < list.length; i += 2) if (list[i] === "x-forwarded-for") found = list[i + 1];
      return found === undefined ? "127.0.0.1" : found.slice(found.lastIndexOf(",") + 1).trim();
    }

    function handle(server, request) {
      const { method, url: href, list: received } = internal.requestHead(request);
      const url = new URL(href);
      const list = [...received];
      if (internal.headers.lookup(list, "host") === null) list.push("host", url.host);
      const remoteAddress = peerOf(list);
      const socket = newSocket({
        encrypted: url.protocol === "https:", localAddress: "127.0.0.1", localPort: server[PORT], remoteAddress,
        remoteFamily: remoteAddress.includes(":") ? "IPv6" : "IPv4", remotePort: 0, server,
      });
      const incoming = new server._requestClass(socket);
      incoming.method = method;
      incoming.url = url.pathname + url.search;
      const outgoing = new server._responseClass(incoming);
      outgoing.assignSocket(socket);
      const { signal } = request;
      const forget = internal.abort().onAbort(signal, () => {
        outgoing.destroy();
        socket.destroy();
      });
      outgoing.once("close", forget);
      const responded = new Promise((resolve, reject) => (outgoing[RESPOND] = { resolve, reject }));
      receive(incoming, list, request.body, signal);
      if (!server.emit("request", incoming, outgoing)) throw new TypeError('The server has no listener for "request"');
      return responded;
    }

    // Returns the server that listens on a port, which is given as a number or as the property
    // `port` of an object. A server that is given itself begins to listen on a free port if it does
    // not listen yet.
    function serverOf(given) {
      if (given instanceof Server) {
        const server = /** @type {any} */ (given);
        if (!server.listening) server.listen(0);
        return server;
      }
      const port = typeof given === "object" && given !== null ? given.port : given;
      if (typeof port !== "number") throw invalid("port", "of type number", port);
      const server = listening.get(port);
      if (server === undefined) {
        throw coded(Error, "ERR_INVALID_ARG_VALUE",
          `No server listens on port ${port}; call listen(${port}) while the modules are evaluated`);
      }
      return server;
    }

    async function handleAsNodeRequest(given, request) {
      if (!internal.isRequest(request)) throw invalid("request", "an instance of Request", request);
      return await handle(serverOf(given), request);
    }

    function httpServerHandler(given, handlers = undefined) {
      if (given instanceof Server) serverOf(given);
      else if (typeof given?.port !== "number") throw invalid("port", "of type number", given?.port);
      return { ...handlers, fetch: (request) => handleAsNodeRequest(given, request) };
    }

    return { SecureServer, Server, ServerResponse, cloudflare: { handleAsNodeRequest, httpServerHandler } };
  });
})
