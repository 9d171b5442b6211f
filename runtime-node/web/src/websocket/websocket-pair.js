// WebSocketPair, as in Cloudflare Workers: two sockets, each of which receives the messages that
// the other sends. Either one socket is accepted and a request is answered with the other, or both
// are accepted and communicate within the isolate.
//
//   one.send() ─► queue of the other ─► accepted: one turn per message ─► message event
//                        └─► answered with: the native socket, which becomes the end of `one`
//: late, after websocket.js
(function (internal) {
  "use strict";

  const { ObjectDefineProperty, RangeError, Uint8Array } = internal.primordials;
  const { expose, isObject } = internal.webidl;
  const { ops } = internal;

  internal.later("webSocketPairs", ["WebSocketPair"], () => {
    const { ABNORMAL, BINARY, CLOSED, PEER_CLOSING, TEXT, handOut, handleEvent, make, newEnd } = internal.webSockets();
    const { within } = internal.stores();
    const NO_CODE = 1005;

    // ---- Messages between the ends of a pair

    // `data` is a string or bytes. The last message is a close, with `data` null.
    const messageOf = (data, code, reason, isAnswer) => ({ __proto__: null, data, code, reason, isAnswer, next: null });

    // Sends a message to an end: queues the message until the end is accepted.
    function post(end, message) {
      if (!end.started) {
        if (end.last === null) end.first = message;
        else end.last.next = message;
        end.last = message;
      } else if (!schedule(end, message)) {
        throw new RangeError("WebSocket: the invocation has ended, or has too many operations in flight");
      }
    }

    // Starts a turn that delivers a message. Returns false if no turn can be started.
    const schedule = (end, message) => within(end.stores, () => ops.taskStart(() => receive(end, message)));

    function receive(end, message) {
      const { socket } = end;
      const { data } = message;
      if (typeof data === "string") return handleEvent(socket, TEXT, data);
      if (data !== null) return handleEvent(socket, BINARY, data);
      const { code, reason, isAnswer } = message;
      const { peer } = end;
      handleEvent(socket, PEER_CLOSING);
      // The other end answers immediately, as a peer across a network would.
      if (!isAnswer && peer !== null && peer.started) schedule(peer, messageOf(null, code, reason, true));
      handleEvent(socket, CLOSED, code, reason, true, false, 0);
    }

    // Accepts an end: delivers the messages in its queue.
    function start(end) {
      let message = end.first;
      end.first = end.last = null;
      for (; message !== null; message = message.next) schedule(end, message);
    }

    function enqueue(end, data) {
      const copy = typeof data === "string" ? data : new Uint8Array(data);
      if (end.peer !== null) post(end.peer, messageOf(copy, 0, "", false));
    }

    function sendClose(end, code, reason) {
      if (end.peer === null) return;
      post(end.peer, messageOf(null, code === 0 ? NO_CODE : code, reason, false));
    }

    // Couples the other end of the pair with the native socket, after a request has been answered
    // with one end.
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

    // Answers an invocation's request with a socket and a list of headers.
    function respond(invocation, headers, socket) {
      const end = handOut(socket);
      if (end.owner !== 0) {
        ops.socketSplice(invocation, headers, end.owner, end.number);
        return;
      }
      const { peer } = end;
      const number = ops.socketServe(invocation, headers);
      // The number is 0 if the client's handshake is invalid, which native code reports to the
      // client.
      if (number === 0) fail(peer);
      else couple(end, invocation, number);
    }

    // ---- The interface

    let isPair;

    class WebSocketPair {
      #brand = true;

      static {
        isPair = (value) => isObject(value) && #brand in value;
      }

      constructor() {
        const first = newEnd(0, 0);
        const second = newEnd(0, 0);
        first.peer = second;
        second.peer = first;
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
