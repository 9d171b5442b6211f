// cloudflare:sockets: TCP connections, with or without TLS, as in Cloudflare Workers.
//
//   connect(address, options) ─► Socket {readable, writable, opened, closed, close(), startTls()}
//
// A connection refers to a native one as {owner, number} (`sockets.rs`), and ends with the
// invocation `owner` that opened it. `readable` holds no bytes: it reads when its reader asks. A
// write settles when the kernel has accepted the bytes.
//: module
(function (internal) {
  "use strict";

  const {
    Error, ObjectDefineProperty, PromisePrototypeThen, PromiseWithResolvers, RegExpPrototypeExec, StringPrototypeIndexOf,
    TypeError, TypedArrayPrototypeGetByteLength,
  } = internal.primordials;
  const { DOMString, bufferSource, dictionary, enforced, enumeration, expose, isObject, needs } = internal.webidl;
  const { ops } = internal;

  internal.define("socketConnections", () => {
    const streams = internal.streams();
    const { handled } = internal.streamsBase();
    const { CLOSED, ERRORED, WRITABLE, writableStreamClose } = internal.streamsWritable();
    const { streamOf } = internal.streamsWritableApi();

    const sizeOf = (chunk) => {
      const bytes = isObject(chunk) ? bufferSource(chunk) : null;
      return bytes === null ? 0 : TypedArrayPrototypeGetByteLength(bytes);
    };

    // Creates the error of a connection that could not be opened. The cause of the error has the
    // `stage` that failed.
    function failure(what, { stage, message }) {
      const cause = new Error(message);
      ObjectDefineProperty(cause, "stage", { __proto__: null, value: stage, writable: true, configurable: true });
      return new Error(`${what} failed: ${message}`, { __proto__: null, cause });
    }

    class Connection {
      hostname;
      port;
      // "off", "on" or "starttls".
      secureTransport;
      allowHalfOpen;
      owner = 0;
      number = 0;
      opened = PromiseWithResolvers();
      closed = PromiseWithResolvers();
      // Resolves when the last chunk has been written, or when the connection is over.
      written = PromiseWithResolvers();
      // Whether each direction has ended.
      isReadOver = false;
      isWriteOver = false;
      isOver = false;
      // Set when TLS is about to begin on a new connection, and when it has begun.
      isUpgrading = false;
      isUpgraded = false;
      // The result of `close()`.
      closing = null;
      readable;
      readableController = null;
      writable;
      writableController = null;

      constructor(hostname, port, { secureTransport, allowHalfOpen, highWaterMark }) {
        this.hostname = hostname;
        this.port = port;
        this.secureTransport = secureTransport;
        this.allowHalfOpen = allowHalfOpen;
        handled(this.opened.promise);
        handled(this.closed.promise);
        this.readable = streams.newReadable({
          __proto__: null,
          type: "bytes",
          highWaterMark: 0,
          start: (controller) => {
            this.readableController = controller;
            return this.opened.promise;
          },
          pull: () => this.#pull(),
          cancel: () => this.#endRead(),
        });
        this.writable = streams.newWritable({
          __proto__: null,
          start: (controller) => {
            this.writableController = controller;
            return this.opened.promise;
          },
          write: (chunk) => this.#write(chunk),
          close: () => this.#finish(),
          abort: () => this.#finish(),
          highWaterMark: highWaterMark ?? 1,
          size: highWaterMark === undefined ? null : sizeOf,
        });
      }

      // Follows a native connection until it is open.
      attach({ owner, number, outcome }, what) {
        this.owner = owner;
        this.number = number;
        PromisePrototypeThen(outcome, (failed) => {
          if (failed !== null) return this.fail(failure(what, failed));
          if (this.isOver) return;
          const host = StringPrototypeIndexOf(this.hostname, ":") < 0 ? this.hostname : `[${this.hostname}]`;
          this.opened.resolve({ remoteAddress: `${host}:${this.port}`, localAddress: undefined });
        }, (error) => this.fail(error));
      }

      #pull() {
        return PromisePrototypeThen(ops.tcpRead(this.owner, this.number), (bytes) => {
          const controller = this.readableController;
          if (!streams.isOpen(controller)) return;
          if (bytes !== null) return streams.enqueue(controller, bytes);
          streams.close(controller);
          this.#endRead();
          if (!this.allowHalfOpen) this.#closeWritable();
        }, (error) => this.fail(error));
      }

      #write(chunk) {
        const bytes = isObject(chunk) ? bufferSource(chunk) : null;
        if (bytes === null) throw this.#failed(new TypeError("Socket: a chunk is neither an ArrayBuffer nor a view of one"));
        if (TypedArrayPrototypeGetByteLength(bytes) === 0) return undefined;
        try {
          const sent = ops.tcpWrite(this.owner, this.number, bytes);
          return sent && PromisePrototypeThen(sent, undefined, (error) => {
            throw this.#failed(error);
          });
        } catch (error) {
          throw this.#failed(error);
        }
      }

      // Ends the direction to the peer, after the last write.
      #finish() {
        if (this.isUpgrading || this.isOver) return undefined;
        return PromisePrototypeThen(ops.tcpFinish(this.owner, this.number), () => {
          this.isWriteOver = true;
          this.written.resolve();
          this.#endIfDone();
        }, (error) => {
          throw this.#failed(error);
        });
      }

      #endRead() {
        this.isReadOver = true;
        this.#endIfDone();
      }

      #endIfDone() {
        if (this.isReadOver && this.isWriteOver) this.end();
      }

      // Closes `writable`, whether or not it is locked. Returns a promise that settles when all
      // chunks have been written, or undefined if the stream has already ended.
      #closeWritable() {
        const stream = streamOf(this.writable);
        if (stream.state === WRITABLE && !stream.closeQueuedOrInFlight) handled(writableStreamClose(stream));
        return stream.state === CLOSED || stream.state === ERRORED ? undefined : this.written.promise;
      }

      #failed(error) {
        this.fail(error);
        return error;
      }

      // Ends the connection, which has failed, and its streams.
      fail(error) {
        if (this.isOver) return;
        this.isOver = true;
        ops.tcpDrop(this.owner, this.number);
        this.opened.reject(error);
        this.closed.reject(error);
        this.written.resolve();
        if (streams.isOpen(this.readableController)) streams.error(this.readableController, error);
        this.writableController.error(error);
      }

      // Ends the connection.
      end() {
        if (this.isOver) return;
        this.isOver = true;
        ops.tcpDrop(this.owner, this.number);
        this.closed.resolve();
        this.written.resolve();
      }

      close() {
        return (this.closing ??= this.#close());
      }

      async #close() {
        try {
          await this.opened.promise;
        } catch {
          return;
        }
        if (this.isOver) return;
        await this.#closeWritable();
        handled(streams.cancel(this.readable, undefined));
        this.end();
      }

      // Begins TLS on this connection once its chunks have been written. Returns the connection
      // that takes its place.
      startTls(expectedServerHostname) {
        if (this.secureTransport === "on") throw new TypeError("Socket.startTls: the socket already uses TLS");
        if (this.secureTransport !== "starttls") {
          throw new TypeError('Socket.startTls: connect with the option secureTransport: "starttls"');
        }
        if (this.isUpgrading) throw new TypeError("Socket.startTls: TLS has already been started");
        const stream = streamOf(this.writable);
        if (this.isOver || this.closing !== null || stream.state !== WRITABLE || stream.closeQueuedOrInFlight) {
          throw new TypeError("Socket.startTls: the socket is closed, or about to be");
        }
        this.isUpgrading = true;
        const options = { __proto__: null, secureTransport: "on", allowHalfOpen: this.allowHalfOpen, highWaterMark: undefined };
        const upgraded = new Connection(this.hostname, this.port, options);
        handled(this.#upgrade(upgraded, expectedServerHostname));
        return upgraded;
      }

      async #upgrade(upgraded, expectedServerHostname) {
        try {
          await this.opened.promise;
          await writableStreamClose(streamOf(this.writable));
          const begun = ops.tcpStartTls(this.owner, this.number, expectedServerHostname);
          this.isUpgraded = true;
          this.end();
          handled(streams.cancel(this.readable, undefined));
          upgraded.attach(begun, "startTls");
        } catch (error) {
          this.fail(error);
          upgraded.fail(error);
        }
      }
    }

    // Begins to connect. Throws if the host is not valid.
    function open(hostname, port, options) {
      const connecting = ops.tcpConnect(hostname, port, options.secureTransport === "on");
      const connection = new Connection(hostname, port, options);
      connection.attach(connecting, "connect");
      return connection;
    }
    return { __proto__: null, open };
  });

  internal.define("sockets", () => {
    const { open } = internal.use("socketConnections");
    const ADDRESS = /^(\[[^\]]*\]|[^:]*):([0-9]+)$/;
    const BRACKETED = /^\[(.*)\]$/;
    const MAX_PORT = 65_535;
    const KEY = { __proto__: null };
    let isSocket;

    class Socket {
      #connection;

      static {
        isSocket = (value) => isObject(value) && #connection in value;
      }

      constructor(key = undefined, connection = undefined) {
        if (key !== KEY) throw new TypeError("Illegal constructor: use connect() of cloudflare:sockets");
        this.#connection = connection;
      }

      get readable() {
        return this.#connection.readable;
      }
      get writable() {
        return this.#connection.writable;
      }
      get opened() {
        return this.#connection.opened.promise;
      }
      get closed() {
        return this.#connection.closed.promise;
      }
      get upgraded() {
        return this.#connection.isUpgraded;
      }
      get secureTransport() {
        return this.#connection.secureTransport;
      }

      // Closes both streams, once all chunks have been written.
      async close() {
        await this.#connection.close();
      }

      startTls(options = undefined) {
        const connection = this.#connection;
        const { expectedServerHostname } = dictionary(options, "Socket.startTls");
        const host = expectedServerHostname === undefined ? undefined : DOMString(expectedServerHostname);
        return new Socket(KEY, connection.startTls(host));
      }
    }
    expose(Socket);
    internal.describe("Socket", isSocket, Socket, ["readable", "writable", "secureTransport", "upgraded"]);

    // Returns the parts of an address, "host:port" or {hostname, port}.
    function addressOf(address) {
      let hostname, given;
      if (isObject(address)) {
        ({ hostname, port: given } = address);
        if (hostname === undefined || given === undefined) {
          throw new TypeError("connect: an address must have a hostname and a port");
        }
        hostname = DOMString(hostname);
      } else {
        const text = DOMString(address);
        const parts = RegExpPrototypeExec(ADDRESS, text);
        if (parts === null) {
          throw new TypeError("connect: the address is not a host and a port, such as db.example.com:5432");
        }
        hostname = parts[1];
        given = parts[2];
      }
      const port = enforced(given, MAX_PORT, "connect: the port");
      if (port === 0) throw new TypeError("connect: the port is 0");
      const inner = RegExpPrototypeExec(BRACKETED, hostname);
      return { __proto__: null, hostname: inner === null ? hostname : inner[1], port };
    }

    function optionsOf(options) {
      const { allowHalfOpen, highWaterMark, secureTransport } = dictionary(options, "connect");
      return {
        __proto__: null,
        allowHalfOpen: !!allowHalfOpen,
        highWaterMark: highWaterMark === undefined ? undefined : enforced(highWaterMark, 2 ** 53 - 1, "connect: highWaterMark"),
        secureTransport: secureTransport === undefined
          ? "off" : enumeration(secureTransport, ["off", "on", "starttls"], "connect: secureTransport"),
      };
    }

    return {
      connect(address, options = undefined) {
        needs(arguments.length, 1, "connect");
        const { hostname, port } = addressOf(address);
        return new Socket(KEY, open(hostname, port, optionsOf(options)));
      },
    };
  });
})
