// node:net: Socket, a Duplex over a TCP connection (`../sockets.rs`).
//
//   connect() ─► connecting ─► open ─┬─► reads and writes ─► end
//                                    └─► taken: continues as a TLSSocket (node-tls.js)
//
// A Socket reads one piece ahead of its consumer, as in Node.js, and a write is done when the
// kernel has accepted its bytes. Callbacks run in ticks of their own, so that an exception of a
// Worker's listener is reported like any other uncaught exception.
//: module
(function (internal) {
  "use strict";

  const {
    DateNow, Error, NumberIsInteger, ObjectSetPrototypeOf, PromisePrototypeThen, RangeError, ReflectApply, Symbol,
    TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset, TypeError,
  } = internal.primordials;
  const { ops } = internal;
  const { clearTimeout, setTimeout } = internal.platform;

  internal.define("netSocket", () => {
    const { coded, defineHidden, invalid, needFunction, outOfRange, refused } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { Duplex } = internal.use("duplex");
    const { isIP } = internal.use("netAddresses");
    const { nextTick } = internal.use("process");

    // The symbols of a Socket's Connection, and of the method that continues once the connection is
    // established.
    const CONNECTION = Symbol("connection"), ESTABLISHED = Symbol("established");
    const LONGEST_TIMEOUT = 2 ** 31 - 1, PORTS = 65_535;

    // The codes of errors, by the stage at which a connection failed.
    const CODES = {
      __proto__: null, connect: "ECONNREFUSED", limit: "EMFILE", policy: "EACCES", proxy: "ECONNREFUSED", resolve: "ENOTFOUND",
      tls: "EPROTO",
    };

    // The native connection of a Socket, and the Socket's use of it.
    class Connection {
      // The invocation that owns the native connection, and the connection's number; 0 before
      // `connect`.
      owner = 0;
      number = 0;
      host = undefined;
      port = undefined;
      isOpen = false;
      isTaken = false;
      isReading = false;
      // Set if the stream asked for bytes before the connection was open.
      isAwaited = false;
      // Writes, and the end of writing, that wait for the connection: {go, done}.
      waiting = [];
      // The Socket whose connection this Socket has taken, or the Socket that has taken this one's.
      partner = null;
      bytesRead = 0;
      bytesWritten = 0;
      // The time in milliseconds after which an idle Socket emits "timeout", or 0 for never; the
      // timer; and the time of the last use.
      limit = 0;
      timer = 0;
      lastUsed = 0;
    }

    const failure = ({ stage, message }, { host, port }) => {
      const error = coded(Error, CODES[stage] ?? "ECONNRESET", message);
      error.address = host;
      error.port = port;
      error.syscall = stage === "resolve" ? "getaddrinfo" : "connect";
      if (stage === "resolve") error.hostname = host;
      return error;
    };
    const lost = (error) => (error instanceof RangeError ? error : coded(Error, "ECONNRESET", error.message));
    const closed = () => coded(Error, "ERR_SOCKET_CLOSED", "Socket is closed");
    const closedEarly = () =>
      coded(Error, "ERR_SOCKET_CLOSED_BEFORE_CONNECTION", "Socket closed before the connection was established");

    // ---- Time

    function arm(socket, connection, delay) {
      connection.timer = setTimeout(() => {
        connection.timer = 0;
        const idle = DateNow() - connection.lastUsed;
        if (idle < connection.limit) arm(socket, connection, connection.limit - idle);
        else socket.emit("timeout");
      }, delay);
    }

    // Records that the Socket was used, and restarts its timeout.
    function noteUse(socket, connection) {
      if (connection.limit === 0) return;
      connection.lastUsed = DateNow();
      if (connection.timer === 0) arm(socket, connection, connection.limit);
    }

    // ---- Connecting

    // Converts the arguments of `connect` to {options, callback}.
    function normalized(args) {
      const first = args[0], last = args[args.length - 1];
      const callback = typeof last === "function" ? last : undefined;
      if (typeof first === "object" && first !== null) return { options: first, callback };
      if (typeof first === "string" && !(+first >= 0)) return { options: { path: first }, callback };
      return { options: { port: first, host: typeof args[1] === "string" ? args[1] : undefined }, callback };
    }

    function portOf({ path, port }) {
      if (path !== undefined && path !== null) throw refused("A connection to a path", "there are no Unix sockets; connect to a host and port");
      if (typeof port !== "number" && typeof port !== "string") {
        throw invalid("options.port", "of type number or string", port);
      }
      const number = port === "" ? NaN : +port;
      if (!NumberIsInteger(number) || number < 0 || number > PORTS) {
        throw coded(RangeError, "ERR_SOCKET_BAD_PORT", `options.port should be >= 0 and < 65536. Received ${port}.`);
      }
      return number;
    }

    function begin(socket, options) {
      const port = portOf(options);
      if (socket.destroyed) restart(socket);
      const connection = socket[CONNECTION];
      connection.host = options.host === undefined || options.host === null ? "localhost" : `${options.host}`;
      connection.port = port;
      socket.connecting = true;
      noteUse(socket, connection);
      follow(socket, () => ops.tcpConnect(connection.host, port, false), () => socket[ESTABLISHED](connection));
    }

    // Calls `connect`, which begins a connection or a handshake. Calls `next` when that has
    // succeeded, and destroys the Socket if it fails.
    function follow(socket, connect, next) {
      const connection = socket[CONNECTION];
      const fail = (error) => {
        if (socket[CONNECTION] === connection) socket.destroy(error);
      };
      let connecting;
      try {
        connecting = connect();
      } catch (error) {
        nextTick(fail, error);
        return;
      }
      connection.owner = connecting.owner;
      connection.number = connecting.number;
      PromisePrototypeThen(connecting.outcome, (failed) => {
        if (socket[CONNECTION] !== connection || socket.destroyed) return;
        if (failed !== null) nextTick(fail, failure(failed, connection));
        else nextTick(next);
      }, (error) => nextTick(fail, error));
    }

    // Lets reads and writes begin, after `announce` has emitted the events of the connection.
    function open(socket, announce) {
      const connection = socket[CONNECTION];
      if (socket.destroyed) return;
      connection.isOpen = true;
      socket.connecting = false;
      noteUse(socket, connection);
      announce();
      const { waiting } = connection;
      connection.waiting = [];
      for (let i = 0; i < waiting.length; i++) waiting[i].go(connection);
      if (connection.isAwaited) socket._read();
      else if (!socket.destroyed && !socket.isPaused()) socket.read(0);
    }

    // Resets a Socket that has been destroyed, so that it can connect again.
    function restart(socket) {
      const { limit } = socket[CONNECTION];
      socket._undestroy();
      defineHidden(socket, { [CONNECTION]: new Connection() });
      socket[CONNECTION].limit = limit;
      ReflectApply(Duplex, socket, [{ allowHalfOpen: socket.allowHalfOpen, emitClose: false }]);
    }

    // ---- Bytes

    function received(socket, connection, bytes) {
      connection.isReading = false;
      if (socket[CONNECTION] !== connection || connection.isTaken || socket.destroyed) return;
      noteUse(socket, connection);
      if (bytes === null) {
        socket.push(null);
        return;
      }
      const length = TypedArrayPrototypeGetByteLength(bytes);
      connection.bytesRead += length;
      socket.push(Buffer.from(TypedArrayPrototypeGetBuffer(bytes), TypedArrayPrototypeGetByteOffset(bytes), length));
    }

    function readFailed(socket, connection, error) {
      connection.isReading = false;
      if (socket[CONNECTION] === connection && !connection.isTaken) socket.destroy(lost(error));
    }

    function send(socket, bytes, done) {
      whenOpen(socket, done, (connection) => {
        noteUse(socket, connection);
        const written = () => {
          connection.bytesWritten += bytes.length;
          noteUse(socket, connection);
          done();
        };
        settle(() => ops.tcpWrite(connection.owner, connection.number, bytes), written, done);
      });
    }

    // Calls `go(connection)` when the connection is open, or `done(error)` if it never opens.
    function whenOpen(socket, done, go) {
      const connection = socket[CONNECTION];
      if (connection.isOpen) go(connection);
      else if (socket.connecting) connection.waiting.push({ go, done });
      else done(closed());
    }

    // Starts an operation that returns a promise, or undefined if it is done. Calls `succeeded()`
    // or `done(error)` at its end.
    function settle(start, succeeded, done) {
      let promise;
      try {
        promise = start();
      } catch (error) {
        done(lost(error));
        return;
      }
      if (promise === undefined) succeeded();
      else PromisePrototypeThen(promise, () => nextTick(succeeded), (error) => nextTick(done, lost(error)));
    }

    // ---- The class

    /** @returns {void} */
    function Socket(options = undefined) {
      if (!(this instanceof Socket)) return new Socket(options);
      if (typeof options === "number" || (options?.fd !== undefined && options.fd !== null)) {
        throw refused("A Socket for a file descriptor", "descriptors refer only to files; connect to a host and port");
      }
      ReflectApply(Duplex, this, [{
        allowHalfOpen: !!options?.allowHalfOpen,
        // A Socket emits "close" with an argument.
        emitClose: false,
        highWaterMark: options?.highWaterMark,
        readableHighWaterMark: options?.readableHighWaterMark,
        signal: options?.signal,
        writableHighWaterMark: options?.writableHighWaterMark,
      }]);
      defineHidden(this, { [CONNECTION]: new Connection() });
      this.connecting = false;
    }
    ObjectSetPrototypeOf(Socket.prototype, Duplex.prototype);
    ObjectSetPrototypeOf(Socket, Duplex);

    defineHidden(Socket.prototype, {
      connect(...args) {
        const { options, callback } = normalized(args);
        if (this.connecting) throw coded(Error, "ERR_SOCKET_CONNECTING", "Socket is already connecting");
        begin(this, options);
        if (callback !== undefined) this.once("connect", callback);
        return this;
      },
      [ESTABLISHED]() {
        open(this, () => {
          this.emit("connect");
          this.emit("ready");
        });
      },
      _read() {
        const connection = this[CONNECTION];
        if (connection.isReading || connection.isTaken) return;
        connection.isAwaited = !connection.isOpen;
        if (!connection.isOpen) return;
        connection.isReading = true;
        let reading;
        try {
          reading = ops.tcpRead(connection.owner, connection.number);
        } catch (error) {
          nextTick(readFailed, this, connection, error);
          return;
        }
        PromisePrototypeThen(
          reading, (bytes) => nextTick(received, this, connection, bytes), (error) => nextTick(readFailed, this, connection, error),
        );
      },
      _write(chunk, encoding, done) {
        send(this, chunk, done);
      },
      _writev(chunks, done) {
        send(this, Buffer.concat(chunks.map(({ chunk }) => chunk)), done);
      },
      _final(done) {
        whenOpen(this, done, (connection) => settle(() => ops.tcpFinish(connection.owner, connection.number), done, done));
      },
      _destroy(error, done) {
        const connection = this[CONNECTION];
        this.connecting = connection.isOpen = false;
        clearTimeout(connection.timer);
        if (connection.number !== 0 && !connection.isTaken) ops.tcpDrop(connection.owner, connection.number);
        const { waiting } = connection;
        connection.waiting = [];
        for (let i = 0; i < waiting.length; i++) waiting[i].done(error ?? closedEarly());
        done(error);
        connection.partner?.destroy();
        nextTick(() => this.emit("close", error !== null && error !== undefined));
      },
      destroySoon() {
        if (this.writable) this.end();
        if (this.writableFinished) this.destroy();
        else this.once("finish", () => this.destroy());
      },
      resetAndDestroy() {
        return this.destroy(this[CONNECTION].number === 0 ? closed() : undefined);
      },
      setTimeout(milliseconds, callback = undefined) {
        if (typeof milliseconds !== "number") throw invalid("msecs", "of type number", milliseconds);
        if (!(milliseconds >= 0 && milliseconds < Infinity)) {
          throw outOfRange("msecs", "a non-negative finite number", milliseconds);
        }
        if (this.destroyed) return this;
        if (callback !== undefined) {
          needFunction(callback, "callback");
          if (milliseconds === 0) this.removeListener("timeout", callback);
          else this.once("timeout", callback);
        }
        const connection = this[CONNECTION];
        clearTimeout(connection.timer);
        connection.timer = 0;
        connection.limit = milliseconds > LONGEST_TIMEOUT ? LONGEST_TIMEOUT : milliseconds;
        noteUse(this, connection);
        return this;
      },
      // The following settings have no effect: small writes are never delayed, the kernel probes
      // all connections, and a connection never keeps an invocation alive.
      setNoDelay() {
        return this;
      },
      setKeepAlive() {
        return this;
      },
      ref() {
        return this;
      },
      unref() {
        return this;
      },
      // A Worker does not learn the addresses of its node.
      address() {
        return {};
      },
      get bufferSize() {
        return this.writableLength;
      },
      get bytesRead() {
        return this[CONNECTION].bytesRead;
      },
      get bytesWritten() {
        return this[CONNECTION].bytesWritten + this.writableLength;
      },
      get pending() {
        return !this[CONNECTION].isOpen;
      },
      get readyState() {
        if (this.connecting) return "opening";
        if (this.readable) return this.writable ? "open" : "readOnly";
        return this.writable ? "writeOnly" : "closed";
      },
      get timeout() {
        return this[CONNECTION].limit || undefined;
      },
      get remoteAddress() {
        return this[CONNECTION].isOpen ? this[CONNECTION].host : undefined;
      },
      get remoteFamily() {
        const family = isIP(this.remoteAddress);
        return family === 0 ? undefined : `IPv${family}`;
      },
      get remotePort() {
        return this[CONNECTION].isOpen ? this[CONNECTION].port : undefined;
      },
      localAddress: undefined,
      localFamily: undefined,
      localPort: undefined,
    });

    // Takes over the connection of a Socket. Returns {owner, number}.
    function take(plain, taker) {
      const connection = plain[CONNECTION];
      if (!connection.isOpen || plain.destroyed) throw coded(TypeError, "ERR_SOCKET_CLOSED", "Socket is closed");
      connection.isTaken = true;
      connection.isOpen = false;
      connection.partner = taker;
      const target = taker[CONNECTION];
      target.partner = plain;
      target.host = connection.host;
      target.port = connection.port;
      return { __proto__: null, owner: connection.owner, number: connection.number };
    }

    return { __proto__: null, CONNECTION, ESTABLISHED, Socket, follow, normalized, open, take };
  });
})
