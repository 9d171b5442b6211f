// node:http: IncomingMessage, the request that a server receives and the response that a client
// receives, and the object that stands for a message's connection.
//: module
(function (internal) {
  "use strict";

  const { Error, ObjectDefineProperty, ObjectSetPrototypeOf, ReflectApply, Symbol } = internal.primordials;

  // A Worker has no connections to its clients and origins. This object stands for a connection,
  // because packages read its addresses and flags, and listen for its events.
  internal.define("httpSocket", () => {
    const { Duplex } = internal.use("duplex");

    return (properties) => {
      const socket = new Duplex({ autoDestroy: false, read() {}, write: (chunk, encoding, callback) => callback() });
      const self = () => socket;
      Object.assign(socket, {
        bytesRead: 0, bytesWritten: 0, connecting: false, encrypted: false, readyState: "open", timeout: 0, ...properties,
        address: () => ({ address: socket.localAddress, family: "IPv4", port: socket.localPort }),
        ref: self, setKeepAlive: self, setNoDelay: self, setTimeout: self, unref: self,
      });
      return socket;
    };
  });

  internal.define("httpIncoming", () => {
    const { abortError, coded, defineHidden } = internal.node;
    const { clearTimeout, setTimeout } = internal.platform;
    const Readable = internal.use("readable");
    const { isAborted, onAbort } = internal.abort();

    const HEADERS = Symbol("headers");
    const DISTINCT = Symbol("headersDistinct");
    // The ReadableStreamDefaultReader of the body; null if there is no body, or it has been read.
    const READER = Symbol("reader");
    const TIMER = Symbol("timer");

    // The headers of which a message keeps only the first value. The values of other headers are
    // joined, except those of Set-Cookie.
    const SINGLE = { __proto__: null };
    for (const name of [
      "age", "authorization", "content-length", "content-type", "etag", "expires", "from", "host", "if-modified-since",
      "if-unmodified-since", "last-modified", "location", "max-forwards", "proxy-authorization", "referer", "retry-after",
      "server", "user-agent",
    ]) SINGLE[name] = true;

    function IncomingMessage(socket) {
      ReflectApply(Readable, this, [{ highWaterMark: socket?.readableHighWaterMark }]);
      this.httpVersionMajor = 1;
      this.httpVersionMinor = 1;
      this.httpVersion = "1.1";
      this.complete = false;
      this.rawHeaders = [];
      this.rawTrailers = [];
      this.joinDuplicateHeaders = false;
      this.aborted = false;
      this.upgrade = null;
      this.url = "";
      this.method = null;
      this.statusCode = null;
      this.statusMessage = null;
      this.socket = socket;
      defineHidden(this, { [HEADERS]: null, [DISTINCT]: null, [READER]: null, [TIMER]: undefined });
    }
    ObjectSetPrototypeOf(IncomingMessage.prototype, Readable.prototype);
    ObjectSetPrototypeOf(IncomingMessage, Readable);

    function joined(raw, joinAll) {
      const headers = {};
      for (let i = 0; i < raw.length; i += 2) {
        const name = raw[i].toLowerCase(), value = raw[i + 1];
        const has = Object.hasOwn(headers, name);
        let all;
        if (name === "set-cookie") all = has ? [...headers[name], value] : [value];
        else if (!has) all = value;
        else if (SINGLE[name] && !joinAll) continue;
        else all = `${headers[name]}${name === "cookie" ? "; " : ", "}${value}`;
        put(headers, name, all);
      }
      return headers;
    }
    function distinct(raw) {
      const headers = { __proto__: null };
      for (let i = 0; i < raw.length; i += 2) (headers[raw[i].toLowerCase()] ??= []).push(raw[i + 1]);
      return headers;
    }
    // Defines the property even if its name is `__proto__`.
    const put = (headers, name, value) => ObjectDefineProperty(headers, name, {
      __proto__: null, value, writable: true, enumerable: true, configurable: true,
    });

    defineHidden(IncomingMessage.prototype, {
      get connection() {
        return this.socket;
      },
      set connection(socket) {
        this.socket = socket;
      },
      get headers() {
        return (this[HEADERS] ??= joined(this.rawHeaders, this.joinDuplicateHeaders));
      },
      set headers(headers) {
        this[HEADERS] = headers;
      },
      get headersDistinct() {
        return (this[DISTINCT] ??= distinct(this.rawHeaders));
      },
      set headersDistinct(headers) {
        this[DISTINCT] = headers;
      },
      get trailers() {
        return {};
      },
      get trailersDistinct() {
        return {};
      },

      setTimeout(milliseconds, callback = undefined) {
        if (callback) this.on("timeout", callback);
        clearTimeout(this[TIMER]);
        if (milliseconds > 0 && !this.complete) this[TIMER] = setTimeout(() => this.emit("timeout", this.socket), milliseconds);
        return this;
      },
      _read() {
        const reader = this[READER];
        if (reader === null) {
          finish(this);
          return;
        }
        reader.read().then(({ done, value }) => {
          if (done) finish(this);
          else this.push(value);
        }, (error) => {
          this[READER] = null;
          fail(this, error);
        });
      },
      _destroy(error, callback) {
        clearTimeout(this[TIMER]);
        const reader = this[READER];
        this[READER] = null;
        if (reader !== null) reader.cancel(error ?? abortError()).catch(() => {});
        if (!this.readableEnded || !this.complete) {
          const isFirst = !this.aborted;
          this.aborted = true;
          if (isFirst) this.emit("aborted");
        }
        // Without a listener, the disconnection of a client is not an error of the Worker.
        if (error && this.listenerCount("error") === 0) error = null;
        callback(error);
      },
      // Discards the rest of the body.
      _dump() {
        this.resume();
      },
      _addHeaderLine(name, value) {
        this.rawHeaders.push(name, value);
        this[HEADERS] = this[DISTINCT] = null;
      },
    });

    function finish(message) {
      message[READER] = null;
      message.complete = true;
      clearTimeout(message[TIMER]);
      message.push(null);
    }

    function fail(message, cause) {
      const error = coded(Error, "ECONNRESET", "aborted");
      error.cause = cause;
      message.destroy(error);
    }

    // Sets the header list [name, value, …] of a message, and its body, which is a ReadableStream
    // or null. The message is aborted when the signal aborts.
    function receive(message, list, body, signal) {
      for (let i = 0; i < list.length; i++) message.rawHeaders[i] = list[i];
      if (body !== null) message[READER] = body.getReader();
      if (signal !== null) {
        if (isAborted(signal)) fail(message, undefined);
        else message.once("close", onAbort(signal, (reason) => message.complete || fail(message, reason)));
      }
      return message;
    }
    return { IncomingMessage, receive };
  });
})
