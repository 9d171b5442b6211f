// node:tls: clients. The node itself performs the handshakes (`../sockets.rs`), and verifies every
// certificate, for the server's name and with the node's authorities or with those of the option
// `ca`. Options that would weaken the verification, need a private key or negotiate a protocol are
// refused.
//
//   connect(options)            a new connection, in plain text until TLS begins
//   connect({ socket })         takes over the connection of a net.Socket, as after STARTTLS
//: module
(function (internal) {
  "use strict";

  const { ArrayIsArray, ArrayBufferIsView, Error, ObjectSetPrototypeOf, ReflectApply } = internal.primordials;
  const { ops } = internal;

  internal.define("tls", () => {
    const { coded, defineHidden, invalid, refused } = internal.node;
    const { Buffer } = internal.use("buffer");
    const { CONNECTION, ESTABLISHED, Socket, follow, normalized, open, take } = internal.use("netSocket");
    const { isIP } = internal.use("netAddresses");
    const { nextTick } = internal.use("process");

    // ---- Options

    const isGiven = (value) => value !== undefined && value !== null && value !== false;

    // Refuses the options that cannot be honored.
    function check(options) {
      if (options?.rejectUnauthorized === false) {
        throw refused("tls with rejectUnauthorized: false",
          "certificates are always verified; trust the server's authority with the option ca");
      }
      const keys = ["cert", "key", "pfx", "crl"];
      for (let i = 0; i < keys.length; i++) {
        if (isGiven(options?.[keys[i]])) throw refused(`tls with the option ${keys[i]}`, "a client presents no certificate");
      }
      if (isGiven(options?.ALPNProtocols)) {
        throw refused("tls with the option ALPNProtocols", "a connection negotiates no protocol");
      }
      if (options?.isServer) throw refused("A TLS server", "a Worker cannot listen; its handler receives the requests");
    }

    // Returns the authorities in the options as one PEM text, or undefined.
    function authorities(options) {
      const given = options?.ca ?? options?.secureContext?.context?.ca;
      if (!isGiven(given)) return undefined;
      const list = ArrayIsArray(given) ? given : [given];
      const texts = [];
      for (let i = 0; i < list.length; i++) {
        const ca = list[i];
        if (typeof ca !== "string" && !ArrayBufferIsView(ca)) {
          throw invalid("options.ca", "of type string or an instance of Buffer", ca);
        }
        texts.push(typeof ca === "string" ? ca : Buffer.from(ca.buffer, ca.byteOffset, ca.byteLength).toString());
      }
      return texts.join("\n");
    }

    // Returns the name that the server's certificate must have, or undefined if that is the
    // connection's host. A `servername` that is an IP address is ignored.
    const nameOf = ({ servername }) =>
      (!isGiven(servername) || servername === "" || isIP(servername) !== 0 ? undefined : `${servername}`);

    // ---- TLSSocket

    /** @returns {void} */
    function TLSSocket(socket, options = undefined) {
      if (!(this instanceof TLSSocket)) return new TLSSocket(socket, options);
      check(options);
      const given = options ?? {};
      const ca = authorities(given);
      ReflectApply(Socket, this, [given]);
      defineHidden(this, { tlsOptions: { ...given, ca } });
      this.encrypted = true;
      this.authorized = false;
      this.authorizationError = null;
      this.secureConnecting = true;
      this.servername = nameOf(given) ?? null;
      this.alpnProtocol = false;
      if (socket !== undefined && socket !== null) wrap(this, socket);
    }
    ObjectSetPrototypeOf(TLSSocket.prototype, Socket.prototype);
    ObjectSetPrototypeOf(TLSSocket, Socket);

    const isPlain = (value) => value instanceof Socket && !(value instanceof TLSSocket);

    // Takes over the connection of a Socket once it is open and all of its writes are done.
    function wrap(secured, plain) {
      if (!isPlain(plain)) {
        throw refused("tls over a stream other than a net.Socket", "TLS runs only over the connection of a net.Socket");
      }
      secured.connecting = true;
      const begin = () => {
        if (secured.destroyed) {
          plain.destroy();
          return;
        }
        try {
          handshake(secured, take(plain, secured));
        } catch (error) {
          nextTick(() => secured.destroy(error));
        }
      };
      const flush = () => {
        if (plain.writableLength > 0) plain.write("", begin);
        else begin();
      };
      const isUnconnected = plain[CONNECTION].number === 0 && !plain.destroyed;
      if (plain.connecting || isUnconnected) plain.once("connect", flush);
      else flush();
      plain.once("close", () => secured.destroy());
    }

    // Performs the handshake on a connection.
    function handshake(secured, { owner, number }) {
      const { tlsOptions } = secured;
      follow(secured, () => ops.tcpStartTls(owner, number, nameOf(tlsOptions), tlsOptions.ca), () => {
        const error = identityError(secured);
        if (error !== undefined) {
          secured.destroy(error);
          return;
        }
        secured.authorized = true;
        secured.secureConnecting = false;
        open(secured, () => {
          secured.emit("secureConnect");
          secured.emit("secure");
        });
      });
    }

    // Calls the option `checkServerIdentity` with an empty certificate, and returns its error. A
    // function that examines more of a certificate than the node verifies refuses the empty one.
    function identityError(secured) {
      const { tlsOptions } = secured;
      const { checkServerIdentity: custom } = tlsOptions;
      if (typeof custom !== "function" || custom === checkServerIdentity) return undefined;
      return custom(nameOf(tlsOptions) ?? secured[CONNECTION].host, {});
    }

    const noop = () => {};
    defineHidden(TLSSocket.prototype, {
      [ESTABLISHED](connection) {
        // The connection does not use TLS yet.
        this.emit("connect");
        if (!this.destroyed) handshake(this, connection);
      },
      disableRenegotiation: noop,
      enableTrace: noop,
      exportKeyingMaterial() {
        throw refused("exportKeyingMaterial", "the keys belong to the node");
      },
      getCertificate: () => ({}),
      getCipher: noop,
      getEphemeralKeyInfo: () => ({}),
      getFinished: noop,
      getPeerCertificate: () => ({}),
      getPeerFinished: noop,
      getPeerX509Certificate: noop,
      getProtocol: () => null,
      getSession: noop,
      getSharedSigalgs: () => [],
      getTLSTicket: noop,
      getX509Certificate: noop,
      isSessionReused: () => false,
      renegotiate: () => false,
      setMaxSendFragment: () => true,
      setServername(name) {
        this.servername = this.tlsOptions.servername = name;
      },
      setSession: noop,
    });

    // ---- The module

    // Returns the options and the callback among the arguments of `connect`. There may be two sets
    // of options: `connect(port, host, options, callback)`.
    function argumentsOf(args) {
      const { options, callback } = normalized(args);
      const at = args.findIndex((arg, i) => i > 0 && typeof arg === "object" && arg !== null);
      return { options: at < 0 ? options : { ...options, ...args[at] }, callback };
    }

    function connect(...args) {
      const { options, callback } = argumentsOf(args);
      const secured = new TLSSocket(options.socket, options);
      if (callback !== undefined) secured.once("secureConnect", callback);
      if (options.timeout) secured.setTimeout(options.timeout);
      return options.socket === undefined || options.socket === null ? secured.connect(options) : secured;
    }

    class SecureContext {
      constructor(options) {
        check(options);
        this.context = { ca: authorities(options) };
      }
    }

    // Accepts every certificate, because the node has verified that of an open connection.
    const checkServerIdentity = () => undefined;

    const noServer = (what) => refused(what, "a Worker cannot listen; its handler receives the requests");
    function Server() {
      throw noServer("tls.Server");
    }

    return {
      CLIENT_RENEG_LIMIT: 3, CLIENT_RENEG_WINDOW: 600, DEFAULT_CIPHERS: "", DEFAULT_ECDH_CURVE: "auto",
      DEFAULT_MAX_VERSION: "TLSv1.3", DEFAULT_MIN_VERSION: "TLSv1.2",
      SecureContext, Server, TLSSocket, checkServerIdentity, connect,
      convertALPNProtocols() {
        throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "A connection negotiates no protocol");
      },
      createSecureContext: (options = undefined) => new SecureContext(options),
      createServer() {
        throw noServer("tls.createServer");
      },
      getCiphers: () => [],
      rootCertificates: [],
    };
  });
})
