// WebSocketPair, as in Cloudflare Workers: two sockets, each of which receives the messages that
// the other sends. Either one socket is accepted and a request is answered with the other, or both
// are accepted and communicate within the isolate.
//
//   one.send() ─► queue of the other ─► accepted: one turn per message ─► message event
//                        └─► answered with: the native socket, which becomes the end of the first
//: late, after websocket.js
(function (internal) {
  "use strict";

  const { ObjectDefineProperty, RangeError, Uint8Array } = internal.primordials;
  const { expose, isObject } = internal.webidl;
  const { ops } = internal;

  internal.later("webSocketPairs", ["WebSocketPair"], () => {
    const { ABNORMAL, BINARY, CLOSED, IS_CLOSING, TEXT, handOut, handleEvent, make, newEnd } = internal.webSockets();
    const { within } = internal.stores();
    const NO_CODE = 1005;

    // ---- Messages between the ends of a pair: {data}, or {code, reason} as the last

    function post(end, message) {
      if (!end.started) {
        if (end.last === null) end.first = message;
        else end.last.next = message;
        end.last = message;
      } else if (!arm(end, message)) {
        throw new RangeError("WebSocket: the invocation has ended, or has too many operations in flight");
      }
    }

    const arm = (end, message) => within(end.stores, () => ops.taskStart(() => receive(end, message)));

    function receive(end, message) {
      const { socket } = end;
      const { data } = message;
      if (typeof data === "string") return handleEvent(socket, TEXT, data);
      if (data !== null) return handleEvent(socket, BINARY, data);
      const { code, reason, isAnswer } = message;
      const { peer } = end;
      handleEvent(socket, IS_CLOSING);
      // The other end answers immediately, as a peer across a network would.
      if (!isAnswer && peer !== null && peer.started) arm(peer, { __proto__: null, data: null, code, reason, isAnswer: true, next: null });
      handleEvent(socket, CLOSED, code, reason, true, false, 0);
    }

    // Accepts an end: delivers the messages in its queue.
    function start(end) {
      let message = end.first;
      end.first = end.last = null;
      for (; message !== null; message = message.next) arm(end, message);
    }

    function enqueue(end, data) {
      const copy = typeof data === "string" ? data : new Uint8Array(data);
      if (end.peer !== null) post(end.peer, { __proto__: null, data: copy, code: 0, reason: "", isAnswer: false, next: null });
    }

    function sendClose(end, code, reason) {
      if (end.peer === null) return;
      post(end.peer, { __proto__: null, data: null, code: code === 0 ? NO_CODE : code, reason, isAnswer: false, next: null });
    }

    // Couples the other end of the pair with the native socket after a request was answered with
    // one end.
    function couple(answered, owner, number) {
      const { peer } = answered;
      answered.peer = peer.peer = null;
      let message = answered.first;
      answered.first = answered.last = null;
      peer.owner = owner;
      peer.number = number;
      for (; message !== null; message = message.next) {
        if (message.data !== null) ops.socketSend(owner, number, message.data);
        else ops.socketClose(owner, number, message.code === NO_CODE ? 0 : message.code, message.reason);
      }
      if (peer.started) {
        const { socket } = peer;
        peer.extensions = ops.socketExtensions(owner, number);
        const onEvent = (kind, a, b, c, d, e) => handleEvent(socket, kind, a, b, c, d, e);
        if (!within(peer.stores, () => ops.socketAccept(owner, number, onEvent))) fail(peer);
      }
    }

    const fail = (end) => ops.taskStart(() => handleEvent(end.socket, CLOSED, ABNORMAL, "", false, true, 0));

    // Answers an invocation's request with a socket.
    function respond(id, list, socket) {
      const end = handOut(socket);
      if (end.owner !== 0) {
        ops.socketSplice(id, list, end.owner, end.number);
        return;
      }
      const { peer } = end;
      const number = ops.socketServe(id, list);
      // If the number is 0, native code has reported the error in the client's request to the
      // client.
      if (number === 0) fail(peer);
      else couple(end, id, number);
    }

    // ---- The interface

    let isPair;

    class WebSocketPair {
      #sockets;

      static {
        isPair = (value) => isObject(value) && #sockets in value;
      }

      constructor() {
        const first = newEnd(0, 0);
        const second = newEnd(0, 0);
        first.peer = second;
        second.peer = first;
        this.#sockets = 2;
        const own = (name, end) => {
          const value = make(end);
          ObjectDefineProperty(this, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
        };
        own("0", first);
        own("1", second);
      }
    }
    expose(WebSocketPair);
    internal.describeBy("WebSocketPair", isPair, (pair) => ["0", pair[0], "1", pair[1]]);
    return { __proto__: null, WebSocketPair, respond, enqueue, sendClose, start };
  });
})
