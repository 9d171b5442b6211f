// node:http: OutgoingMessage, the common base of a client's request and a server's response: its
// headers, and its body as a Writable.
//
//   message[DELIVER](body, isWhole)   sends the message, once. `body` is null, bytes if `isWhole`
//                                     is true, or otherwise a ReadableStream
//
// Everything that a program writes before the end of a tick is sent together: the body of a message
// that is complete by then is not a stream.
//: module
(function (internal) {
  "use strict";

  const { ArrayIsArray, Error, Map, ObjectSetPrototypeOf, ReflectApply, Symbol, TypeError } = internal.primordials;

  internal.define("httpOutgoing", () => {
    const { abortError, coded, defineHidden, invalid, needString } = internal.node;
    const { lazy } = internal.hooks;
    const { Buffer } = internal.use("buffer");
    const { nextTick } = internal.use("process");
    const { Writable } = internal.use("writable");

    const DELIVER = Symbol("deliver");
    // A map from names in lower case to [name, value].
    const HEADERS = Symbol("headers");
    const ENDING = Symbol("ending");
    // True until the first write schedules `uncork` for the end of the tick.
    const HELD = Symbol("held");
    // The controller of the body's stream, and the callback of the last write while the stream is
    // full.
    const CONTROLLER = Symbol("controller");
    const WAITING = Symbol("waiting");

    const NOT_TOKEN = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]/;
    const NOT_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

    function validateHeaderName(name, label = undefined) {
      if (typeof name !== "string" || name === "" || NOT_TOKEN.test(name)) {
        throw coded(TypeError, "ERR_INVALID_HTTP_TOKEN", `${label || "Header name"} must be a valid HTTP token ["${name}"]`);
      }
    }
    function validateHeaderValue(name, value) {
      if (value === undefined) throw coded(TypeError, "ERR_HTTP_INVALID_HEADER_VALUE", `Invalid value "undefined" for header "${name}"`);
      if (NOT_VALUE.test(`${value}`)) throw coded(TypeError, "ERR_INVALID_CHAR", `Invalid character in header content ["${name}"]`);
    }
    const alreadySent = (what) => coded(Error, "ERR_HTTP_HEADERS_SENT", `Cannot ${what} headers after they are sent to the client`);

    /** @returns {void} */
    function OutgoingMessage(options) {
      ReflectApply(Writable, this, [options]);
      // The first line of the message in HTTP/1.1, or null before the headers are sent. Packages
      // read this property to learn whether the headers were sent.
      this._header = null;
      this._hasBody = true;
      this._contentLength = null;
      this.finished = false;
      this.sendDate = false;
      this.shouldKeepAlive = true;
      this.chunkedEncoding = false;
      this.useChunkedEncodingByDefault = true;
      this.strictContentLength = false;
      this.maxRequestsOnConnectionReached = false;
      this.socket = null;
      defineHidden(this, { [HEADERS]: new Map(), [ENDING]: false, [HELD]: true, [CONTROLLER]: undefined, [WAITING]: null });
      this.cork();
    }
    ObjectSetPrototypeOf(OutgoingMessage.prototype, Writable.prototype);
    ObjectSetPrototypeOf(OutgoingMessage, Writable);

    // ---- Headers

    function checked(message, name, value, what) {
      if (message._header !== null) throw alreadySent(what);
      validateHeaderName(name);
      if (ArrayIsArray(value)) for (const each of value) validateHeaderValue(name, each);
      else validateHeaderValue(name, value);
      return name.toLowerCase();
    }

    // Returns the header list [name, value, …] of a message, with names in lower case. Omits the
    // headers of a connection, which concern only its two ends.
    const CONNECTION = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "expect", "te"];
    function listOf(message) {
      const list = [];
      for (const [name, [, value]] of message[HEADERS]) {
        if (CONNECTION.includes(name)) continue;
        for (const each of ArrayIsArray(value) ? value : [value]) list.push(name, `${each}`);
      }
      return list;
    }

    defineHidden(OutgoingMessage.prototype, {
      setHeader(name, value) {
        this[HEADERS].set(checked(this, name, value, "set"), [name, value]);
        return this;
      },
      appendHeader(name, value) {
        const key = checked(this, name, value, "append");
        const before = this[HEADERS].get(key);
        this[HEADERS].set(key, before === undefined ? [name, value] : [before[0], [].concat(before[1], value)]);
        return this;
      },
      setHeaders(headers) {
        if (this._header !== null) throw alreadySent("set");
        if (ArrayIsArray(headers) || typeof headers?.keys !== "function" || typeof headers.get !== "function") {
          throw invalid("headers", "an instance of Headers or Map", headers);
        }
        const cookies = typeof headers.getSetCookie === "function" ? headers.getSetCookie() : [];
        for (const [name, value] of headers) if (cookies.length === 0 || name !== "set-cookie") this.setHeader(name, value);
        if (cookies.length > 0) this.setHeader("set-cookie", cookies);
        return this;
      },
      getHeader(name) {
        return this[HEADERS].get(needString(name, "name").toLowerCase())?.[1];
      },
      getHeaders() {
        const headers = { __proto__: null };
        for (const [name, [, value]] of this[HEADERS]) headers[name] = value;
        return headers;
      },
      getHeaderNames() {
        return [...this[HEADERS].keys()];
      },
      getRawHeaderNames() {
        return [...this[HEADERS].values()].map(([name]) => name);
      },
      hasHeader(name) {
        return this[HEADERS].has(needString(name, "name").toLowerCase());
      },
      removeHeader(name) {
        needString(name, "name");
        if (this._header !== null) throw alreadySent("remove");
        this[HEADERS].delete(name.toLowerCase());
      },
      // JavaScript can neither set nor read trailers. The runtime only passes on the trailers of a
      // body that a Worker forwards.
      addTrailers() {},
      get headersSent() {
        return this._header !== null;
      },
      get connection() {
        return this.socket;
      },
      set connection(socket) {
        this.socket = socket;
      },

      // ---- The body

      write(chunk, encoding, callback) {
        if (typeof encoding === "function") return this.write(chunk, undefined, encoding);
        if (this._header === null && !this.destroyed && !this.writableEnded) this._implicitHeader();
        if (this[HELD]) nextTick(release, this);
        this[HELD] = false;
        return ReflectApply(Writable.prototype.write, this, [chunk, encoding, callback]);
      },
      end(chunk, encoding, callback) {
        if (typeof chunk === "function") return this.end(undefined, undefined, chunk);
        if (typeof encoding === "function") return this.end(chunk, undefined, encoding);
        if (this._header === null && !this.destroyed) {
          if (chunk === undefined || chunk === null) this._contentLength = 0;
          else if (typeof chunk === "string") this._contentLength = Buffer.byteLength(chunk, encoding ?? undefined);
          else this._contentLength = chunk.byteLength;
          this._implicitHeader();
        }
        this[ENDING] = this.finished = true;
        return ReflectApply(Writable.prototype.end, this, [chunk, encoding, callback]);
      },
      flushHeaders() {
        if (this._header === null) this._implicitHeader();
        if (this[CONTROLLER] === undefined && !this.destroyed) open(this);
        if (this[HELD]) release(this);
        this[HELD] = false;
      },
      _implicitHeader() {
        throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _implicitHeader() method is not implemented");
      },
      _writev(writes, callback) {
        const pieces = writes.map(({ chunk, encoding }) => (typeof chunk === "string" ? Buffer.from(chunk, encoding) : chunk));
        pass(this, pieces.length === 1 ? pieces[0] : Buffer.concat(pieces), callback);
      },
      _write(chunk, encoding, callback) {
        pass(this, typeof chunk === "string" ? Buffer.from(chunk, encoding) : chunk, callback);
      },
      _final(callback) {
        if (this[CONTROLLER] === undefined) {
          this[CONTROLLER] = null;
          this[DELIVER](null, true);
        } else if (this[CONTROLLER] !== null) this[CONTROLLER].close();
        callback();
      },
      _destroy(error, callback) {
        const controller = this[CONTROLLER], waiting = this[WAITING];
        this[CONTROLLER] = this[WAITING] = null;
        if (controller && !this.writableFinished) controller.error(error ?? abortError());
        if (waiting !== null) waiting(error ?? abortError());
        callback(error);
      },
      setTimeout(milliseconds, callback = undefined) {
        if (callback) this.on("timeout", callback);
        return this;
      },
      pipe() {
        ReflectApply(Writable.prototype.pipe, this, []);
      },
    });

    const release = (message) => {
      if (!message[ENDING]) message.uncork();
    };

    // Passes bytes on, as the whole body if the message ends with them.
    function pass(message, bytes, callback) {
      if (message[CONTROLLER] === undefined) {
        if (message[ENDING]) {
          message[CONTROLLER] = null;
          message[DELIVER](message._hasBody ? bytes : null, true);
          callback();
          return;
        }
        open(message);
      }
      const controller = message[CONTROLLER];
      if (controller === null || bytes.length === 0) {
        callback();
        return;
      }
      controller.enqueue(bytes);
      if (controller.desiredSize > 0) callback();
      else message[WAITING] = callback;
    }

    // Sends the message with a stream as its body.
    function open(message) {
      if (!message._hasBody) {
        message[CONTROLLER] = null;
        message[DELIVER](null, true);
        return;
      }
      const body = new (lazy("ReadableStream"))({
        start(controller) {
          message[CONTROLLER] = controller;
        },
        pull() {
          const callback = message[WAITING];
          message[WAITING] = null;
          if (callback !== null) callback();
        },
        cancel(reason) {
          message[CONTROLLER] = null;
          message.destroy(message.listenerCount("error") > 0 ? reason : undefined);
        },
      });
      message[DELIVER](body, false);
    }

    return { DELIVER, HEADERS, OutgoingMessage, alreadySent, listOf, validateHeaderName, validateHeaderValue };
  });
})
