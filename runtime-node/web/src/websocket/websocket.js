// WebSocket and CloseEvent (WebSockets §3, §4), with the method `accept` of Cloudflare Workers.
//
//   new WebSocket(url)    connecting ─► open; binaryType "blob"; close() takes the standard's codes
//   WebSocketPair, response.webSocket
//                         open, but silent until accept(); binaryType "arraybuffer"; close() takes
//                         all codes that a server may send
//
// A socket has an end of one of two kinds: a native socket {owner, number} (`sockets.rs`),
// an operation of the invocation `owner`; or one half of a pair in this isolate
// (`websocket-pair.js`), which sends to its peer.
//: late, after fetch.js messages.js stores.js
(function (internal) {
  "use strict";

  const {
    ArrayPrototypeIncludes, ArrayPrototypeJoin, PromisePrototypeThen, RegExpPrototypeExec, StringPrototypeIndexOf,
    StringPrototypeSlice, SymbolIterator, TypeError, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteLength,
  } = internal.primordials;
  const { DOMString, USVString, bufferSource, clamped, dictionary, expose, isObject, needs, sequence, unsigned } =
    internal.webidl;
  const { ops } = internal;

  internal.later("webSockets", ["CloseEvent", "WebSocket"], () => {
    const { Event, EventTarget, deliver, eventHandler } = internal.events();
    const { abort, newSignal } = internal.abort();
    const { newMessage } = internal.messageEvents();
    const { bytesOf, isBlob, newBlob } = internal.blobs();
    const { DOMException } = internal.exceptions();
    const { lookup } = internal.headers;
    const stores = internal.stores();

    const CONNECTING = 0, OPEN = 1, CLOSING = 2, CLOSED = 3;
    // Events of a native socket (`sockets/reader.rs`).
    const TEXT = 0, BINARY = 1, PEER_CLOSING = 2;
    // Results of a send (`websocket.rs`).
    const QUEUED = 0, GONE = 1, FULL = 2;
    const ABNORMAL = 1006;
    // The maximum length of a close reason, in bytes (RFC 6455 §5.5).
    const MAX_REASON = 123;
    const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
    const WS = /^wss?:/;
    const HTTP = /^http(s?:)/;
    const ORIGIN = /^[^/]*\/\/[^/?#]*/;
    const KEY = { __proto__: null };

    let isCloseEvent;

    class CloseEvent extends Event {
      #wasClean;
      #code;
      #reason;
      static {
        isCloseEvent = (value) => isObject(value) && #reason in value;
      }
      constructor(type, options = undefined) {
        needs(arguments.length, 1, "CloseEvent");
        super(type, options);
        const { code, reason, wasClean } = dictionary(options, "CloseEvent");
        this.#code = unsigned(code, 16);
        this.#reason = reason === undefined ? "" : USVString(reason);
        this.#wasClean = !!wasClean;
      }
      get wasClean() {
        return this.#wasClean;
      }
      get code() {
        return this.#code;
      }
      get reason() {
        return this.#reason;
      }
    }
    expose(CloseEvent);
    internal.describe("CloseEvent", isCloseEvent, CloseEvent, ["code", "reason", "wasClean"]);

    // ---- Ends

    // `peer` and the queue from `first` to `last` belong to a pair; `owner` is 0 without a native
    // socket.
    const newEnd = (owner, number) => ({
      __proto__: null, socket: null, owner, number, extensions: "", peer: null, first: null, last: null, started: false,
      stores: null,
    });

    function start(end) {
      if (end.started) return;
      end.started = true;
      // Listeners see the values of AsyncLocalStorages that are current now.
      end.stores = stores.current();
      if (end.owner === 0) return internal.webSocketPairs().start(end);
      const { socket } = end;
      const onEvent = (kind, a, b, c, d, e) => handleEvent(socket, kind, a, b, c, d, e);
      end.extensions = ops.socketExtensions(end.owner, end.number);
      if (!ops.socketAccept(end.owner, end.number, onEvent)) handleEvent(socket, CLOSED, ABNORMAL, "", false, true, 0);
    }

    function enqueue(end, data) {
      if (end.owner !== 0) return ops.socketSend(end.owner, end.number, data);
      internal.webSocketPairs().enqueue(end, data);
      return QUEUED;
    }

    function sendClose(end, code, reason) {
      if (end.owner === 0) internal.webSocketPairs().sendClose(end, code, reason);
      else ops.socketClose(end.owner, end.number, code, reason);
    }

    // ---- Arguments

    function urlFrom(value) {
      const input = USVString(value);
      let href = internal.parseUrl(input);
      const web = href === null ? null : RegExpPrototypeExec(HTTP, href);
      if (web !== null) href = `ws${web[1]}${StringPrototypeSlice(href, web[0].length)}`;
      if (href === null || RegExpPrototypeExec(WS, href) === null) {
        throw new DOMException(`WebSocket: '${input}' is not an absolute URL of ws:, wss:, http: or https:`, "SyntaxError");
      }
      if (StringPrototypeIndexOf(href, "#") >= 0) {
        throw new DOMException("WebSocket: the URL must not have a fragment", "SyntaxError");
      }
      return href;
    }

    function protocolsFrom(value) {
      const list = isObject(value) && value[SymbolIterator] !== undefined && value[SymbolIterator] !== null
        ? sequence(value, DOMString, "WebSocket: protocols") : [DOMString(value)];
      return list;
    }

    function checkProtocols(list) {
      for (let i = 0; i < list.length; i++) {
        if (RegExpPrototypeExec(TOKEN, list[i]) === null || ArrayPrototypeIncludes(list, list[i], i + 1)) {
          throw new DOMException(`WebSocket: the subprotocol '${list[i]}' is not a token, or occurs twice`, "SyntaxError");
        }
      }
    }

    // The codes allowed in a Close frame (RFC 6455 §7.4): those that a page may send, and those
    // that a server may send.
    const isPageCode = (code) => code === 1000 || (code >= 3000 && code <= 4999);
    const isServerCode = (code) =>
      isPageCode(code) || (code >= 1001 && code <= 1003) || (code >= 1007 && code <= 1014);

    // ---- The interface

    let isWebSocket;
    let make; // (end): creates a socket that has not been accepted
    let handleEvent; // (socket, kind, …): handles an event of the socket's end
    let handOut; // (socket): marks the socket as returned in a Response, and returns its end

    class WebSocket extends EventTarget {
      #end = null;
      #url = "";
      #protocol = "";
      #state = OPEN;
      #binaryType = "arraybuffer";
      #handlers = { __proto__: null, open: null, error: null, close: null, message: null };
      #isPage = false;
      #isAccepted = false;
      #isHandedOut = false;
      // The signal that aborts the connection attempt.
      #signal = null;
      // The number of bytes that will never be sent.
      #unsent = 0;

      static {
        isWebSocket = (value) => isObject(value) && #end in value;
        make = (end) => new WebSocket(KEY, end);
        handleEvent = (socket, kind, a, b, c, d, e) => socket.#handleEvent(kind, a, b, c, d, e);
        handOut = (socket) => {
          if (socket.#isAccepted || socket.#isPage) {
            throw new TypeError("An accepted WebSocket cannot be returned in a Response; return the other socket of the pair");
          }
          if (socket.#isHandedOut) throw new TypeError("This WebSocket has already been returned in a Response");
          socket.#isHandedOut = true;
          return socket.#end;
        };
        const handle = (type) => {
          eventHandler(WebSocket, type, {
            get: (socket) => socket.#handlers[type],
            set: (socket, handler) => {
              socket.#handlers[type] = handler;
            },
          });
        };
        handle("open");
        handle("error");
        handle("close");
        handle("message");
      }

      constructor(url, protocols = undefined) {
        if (url === KEY) {
          super();
          this.#end = protocols;
          protocols.socket = this;
          return;
        }
        needs(arguments.length, 1, "WebSocket");
        const input = USVString(url);
        const list = protocols === undefined ? [] : protocolsFrom(protocols);
        const href = urlFrom(input);
        checkProtocols(list);
        super();
        this.#url = href;
        this.#state = CONNECTING;
        this.#binaryType = "blob";
        this.#isPage = this.#isAccepted = true;
        this.#end = newEnd(0, 0);
        this.#end.socket = this;
        this.#connect(list);
      }

      get url() {
        return this.#url;
      }
      get readyState() {
        const end = this.#end;
        // The invocation and its connection may have ended without a turn that reported the end.
        if (end.owner !== 0 && end.started && this.#state !== CLOSED && ops.socketBuffered(end.owner, end.number) < 0) {
          this.#state = CLOSED;
        }
        return this.#state;
      }
      get bufferedAmount() {
        const end = this.#end;
        const buffered = end.owner === 0 ? 0 : ops.socketBuffered(end.owner, end.number);
        return this.#unsent + (buffered < 0 ? 0 : buffered);
      }
      get extensions() {
        return this.#end.extensions;
      }
      get protocol() {
        return this.#protocol;
      }
      get binaryType() {
        return this.#binaryType;
      }
      set binaryType(value) {
        this.#end; // a brand check
        const type = DOMString(value);
        if (type === "blob" || type === "arraybuffer") this.#binaryType = type;
      }

      // Ignores Cloudflare's options: a Close frame is always answered immediately.
      accept() {
        const end = this.#end;
        if (this.#isHandedOut) throw new TypeError("WebSocket.accept: this WebSocket has been returned in a Response; accept the other socket of the pair");
        if (this.#isAccepted) throw new TypeError("WebSocket.accept: the WebSocket is already accepted");
        this.#isAccepted = true;
        start(end);
      }

      send(data) {
        const end = this.#end;
        needs(arguments.length, 1, "WebSocket.send");
        let message = data;
        if (isObject(data)) message = isBlob(data) ? bytesOf(data) : bufferSource(data);
        if (typeof message !== "object" || message === null) message = USVString(data);
        if (this.#state === CONNECTING) {
          throw new DOMException("WebSocket.send: the WebSocket is not open yet; wait for its open event", "InvalidStateError");
        }
        this.#needsAcceptance("send");
        const result = this.#state === OPEN ? enqueue(end, message) : GONE;
        if (result === QUEUED) return;
        // Later messages are discarded without an attempt to send them.
        if (result === FULL) this.#state = CLOSING;
        this.#unsent += typeof message === "string" ? ops.utf8Length(message) : TypedArrayPrototypeGetByteLength(message);
      }

      close(code = undefined, reason = undefined) {
        const end = this.#end;
        let number = 0;
        if (code !== undefined) {
          const whole = clamped(code);
          number = whole < 0 ? 0 : whole > 65_535 ? 65_535 : whole;
        }
        const why = reason === undefined ? "" : USVString(reason);
        if (code !== undefined && !(this.#isPage ? isPageCode : isServerCode)(number)) {
          const allowed = this.#isPage ? "1000 or 3000 to 4999" : "1000 to 1003, 1007 to 1014 or 3000 to 4999";
          throw new DOMException(`WebSocket.close: the code ${number} is not ${allowed}`, "InvalidAccessError");
        }
        if (ops.utf8Length(why) > MAX_REASON) {
          throw new DOMException(`WebSocket.close: the reason is longer than ${MAX_REASON} bytes`, "SyntaxError");
        }
        if (this.#state === CONNECTING) {
          this.#state = CLOSING;
          abort(this.#signal, undefined);
          return;
        }
        this.#needsAcceptance("close");
        if (this.#state !== OPEN) return;
        this.#state = CLOSING;
        sendClose(end, number === 0 && why !== "" ? 1000 : number, why);
      }

      #needsAcceptance(method) {
        if (!this.#isAccepted) {
          throw new TypeError(`WebSocket.${method}: call accept() first${this.#isHandedOut ? ", on the other socket of the pair" : ""}`);
        }
      }

      #connect(protocols) {
        this.#signal = newSignal();
        const id = ops.invocationNow();
        const isKept = id !== 0 && ops.waitUntil(id);
        const over = () => {
          if (isKept) ops.waitOver(id);
        };
        PromisePrototypeThen(this.#handshake(protocols), over, () => {
          // Like the delivery of messages, the failure is reported in a turn of its own.
          this.#fail();
          over();
        });
      }

      async #handshake(protocols) {
        // The caller first receives the object and adds its listeners.
        await undefined;
        const headers = { __proto__: null, upgrade: "websocket" };
        if (protocols.length > 0) headers["sec-websocket-protocol"] = ArrayPrototypeJoin(protocols, ", ");
        const init = { __proto__: null, headers, signal: this.#signal, cache: "no-store", redirect: "manual" };
        const request = internal.requestRecord(`http${StringPrototypeSlice(this.#url, 2)}`, init);
        const { list, socket } = await internal.fetch().receive(request);
        const protocol = socket === null ? null : lookup(list, "sec-websocket-protocol") ?? "";
        if (this.#state !== CONNECTING || socket === null || (protocols.length > 0 && protocol === "")) {
          if (socket !== null) ops.socketDrop(socket.owner, socket.number);
          return this.#fail();
        }
        this.#protocol = protocol;
        this.#state = OPEN;
        this.#end.owner = socket.owner;
        this.#end.number = socket.number;
        start(this.#end);
        if (this.#state === OPEN) deliver(this, new Event("open"));
      }

      #fail() {
        this.#handleEvent(CLOSED, ABNORMAL, "", false, true, 0);
      }

      #handleEvent(kind, a, b, c, d, e) {
        if (kind === CLOSED) return this.#reportClose(a, b, c, d, e);
        if (this.#state !== OPEN) return;
        if (kind === PEER_CLOSING) {
          this.#state = CLOSING;
          return;
        }
        let data = a;
        if (kind === BINARY) data = this.#binaryType === "blob" ? newBlob(a, "") : TypedArrayPrototypeGetBuffer(a);
        const origin = this.#url === "" ? "" : /** @type {string[]} */ (RegExpPrototypeExec(ORIGIN, this.#url))[0];
        deliver(this, newMessage(data, [], origin));
      }

      #reportClose(code, reason, wasClean, hasFailed, unsent) {
        if (this.#state === CLOSED) return;
        this.#state = CLOSED;
        this.#unsent += unsent;
        if (hasFailed) deliver(this, new Event("error"));
        deliver(this, new CloseEvent("close", { __proto__: null, code, reason, wasClean }));
      }
    }
    expose(WebSocket, { __proto__: null, CONNECTING, OPEN, CLOSING, CLOSED });
    internal.describe("WebSocket", isWebSocket, WebSocket, [
      "url", "readyState", "protocol", "extensions", "binaryType", "bufferedAmount",
    ]);

    // Creates the WebSocket of a received Response.
    const ofLink = ({ owner, number }) => make(newEnd(owner, number));
    return {
      __proto__: null, CloseEvent, WebSocket, BINARY, CLOSED, TEXT, PEER_CLOSING, ABNORMAL, handOut, handleEvent, isWebSocket, make, newEnd,
      ofLink,
    };
  });
})
