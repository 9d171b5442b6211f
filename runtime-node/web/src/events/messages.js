// MessageChannel, MessagePort and MessageEvent (HTML §9.4, §9.1), within one isolate.
//
//   postMessage ─► clone ─► the queue of the other end ─► a turn ─► `message` on its port
//
// A message is delivered in a turn of the invocation that sent it or, if the port had not been
// started, of the invocation that starts it. The message is dropped when that invocation ends. A
// port may therefore be kept for longer than an invocation, and does not keep an invocation alive.
//: late, after clone.js events.js
(function (internal) {
  "use strict";

  const { ArrayPrototypePush, ObjectFreeze, RangeError, SymbolIterator, TypeError } = internal.primordials;
  const { DOMString, USVString, dictionary, expose, isObject, needs, sequence } = internal.webidl;
  const { ops } = internal;

  internal.later("messageEvents", ["MessageEvent"], () => {
    const { Event, init, isBusy } = internal.events();
    let isMessageEvent;
    let newMessage; // (data, ports, origin, lastEventId): an event `message`

    class MessageEvent extends Event {
      #data;
      #origin;
      #lastEventId;
      #source;
      #ports;

      static {
        isMessageEvent = (value) => isObject(value) && #ports in value;
        newMessage = (data, ports = [], origin = "", lastEventId = "") => {
          const event = new MessageEvent("message");
          event.#data = data;
          event.#ports = ObjectFreeze(ports);
          event.#origin = origin;
          event.#lastEventId = lastEventId;
          return event;
        };
      }

      constructor(type, options = undefined) {
        needs(arguments.length, 1, "MessageEvent");
        super(type, options);
        const { data, lastEventId, origin, ports, source } = dictionary(options, "MessageEvent");
        this.#fill(data, origin, lastEventId, source, ports);
      }

      #fill(data, origin, lastEventId, source, ports) {
        this.#data = data === undefined ? null : data;
        this.#lastEventId = lastEventId === undefined ? "" : DOMString(lastEventId);
        this.#origin = origin === undefined ? "" : USVString(origin);
        const port = (value) => {
          if (!internal.messages().isPort(value)) throw new TypeError("MessageEvent: not a MessagePort");
          return value;
        };
        this.#ports = ObjectFreeze(ports === undefined ? [] : sequence(ports, port, "MessageEvent: ports"));
        this.#source = source === undefined || source === null ? null : port(source);
      }

      get data() {
        return this.#data;
      }
      get origin() {
        return this.#origin;
      }
      get lastEventId() {
        return this.#lastEventId;
      }
      get source() {
        return this.#source;
      }
      get ports() {
        return this.#ports;
      }

      initMessageEvent(type, bubbles = false, cancelable = false, data = null, origin = "", lastEventId = "", source = null,
        ports = undefined) {
        this.#data; // a brand check
        needs(arguments.length, 1, "MessageEvent.initMessageEvent");
        if (isBusy(this)) return;
        init(this, DOMString(type), !!bubbles, !!cancelable);
        this.#fill(data, origin, lastEventId, source, ports);
      }
    }
    expose(MessageEvent);
    internal.describe("MessageEvent", isMessageEvent, MessageEvent, [
      "data", "origin", "lastEventId", "source", "ports",
    ]);
    return { MessageEvent, newMessage };
  });

  internal.later("messages", ["MessageChannel", "MessagePort"], () => {
    const { Event, EventTarget, deliver, eventHandler } = internal.events();
    const { newMessage } = internal.messageEvents();
    const CREATE = { __proto__: null };

    // ---- Ends of a channel: {peer, port, enabled, first, last}. A port holds one end and may
    // transfer it.

    const newEnd = () => ({ __proto__: null, peer: null, port: null, enabled: false, first: null, last: null });

    function queue(end, message) {
      if (end.last === null) end.first = message;
      else end.last.next = message;
      message.next = null;
      end.last = message;
    }

    // Starts a turn that delivers a message, which is in no queue meanwhile. Throws if no turn can
    // be started: the message is then lost.
    function schedule(end, message) {
      if (!ops.taskStart(() => receive(end, message))) {
        throw new RangeError("MessagePort: a message is lost, because the invocation has ended, or has too many operations in flight");
      }
    }

    function receive(end, message) {
      // The port may have been transferred before this turn, and the new port may not have been
      // started.
      if (!end.enabled) return queue(end, message);
      const { ports, value } = message;
      deliver(end.port, newMessage(value, ports));
    }

    function post(end, message) {
      if (!end.enabled) return queue(end, message);
      schedule(end, message);
    }

    function enable(end) {
      if (end.enabled) return;
      end.enabled = true;
      let message = end.first;
      end.first = end.last = null;
      for (; message !== null; message = message.next) schedule(end, message);
    }

    // ---- Ports

    let isPort;
    let detach;
    let entangle; // (port, end)

    class MessagePort extends EventTarget {
      #end = null;
      #handlers = { __proto__: null, message: null, messageerror: null, close: null };

      static {
        isPort = (value) => isObject(value) && #end in value;
        detach = (port) => {
          const end = port.#end;
          port.#end = null;
          return end;
        };
        entangle = (port, end) => {
          port.#end = end;
          end.port = port;
          return port;
        };
        const attribute = (type) => ({
          get: (port) => port.#handlers[type],
          set: (port, handler) => {
            port.#handlers[type] = handler;
            if (type === "message" && port.#end !== null) enable(port.#end);
          },
        });
        eventHandler(MessagePort, "message", attribute("message"));
        eventHandler(MessagePort, "messageerror", attribute("messageerror"));
        eventHandler(MessagePort, "close", attribute("close"));
      }

      constructor(key = undefined) {
        if (key !== CREATE) throw new TypeError("Illegal constructor: use a MessageChannel");
        super();
      }

      postMessage(message, options = undefined) {
        const end = this.#end;
        needs(arguments.length, 1, "MessagePort.postMessage");
        const clones = internal.clones();
        let transfer;
        if (isObject(options) && options[SymbolIterator] !== undefined && options[SymbolIterator] !== null) {
          transfer = sequence(options, clones.object, "MessagePort.postMessage: transfer");
        } else {
          transfer = clones.transferFrom(options, "MessagePort.postMessage");
        }
        const target = end === null ? null : end.peer;
        let doomed = false;
        for (let i = 0; i < transfer.length; i++) {
          if (transfer[i] === this) {
            throw new (internal.exceptions().DOMException)("A port cannot be transferred through itself", "DataCloneError");
          }
          doomed ||= target !== null && transfer[i] === target.port;
        }
        const { transferred, value } = clones.send(message, transfer);
        if (target === null || doomed) return;
        const ports = [];
        for (let i = 0; i < transferred.length; i++) if (isPort(transferred[i])) ArrayPrototypePush(ports, transferred[i]);
        post(target, { __proto__: null, value, ports, next: null });
      }

      start() {
        if (this.#end !== null) enable(this.#end);
      }

      close() {
        const end = detach(this);
        if (end === null) return;
        const { peer } = end;
        end.enabled = false;
        end.first = end.last = end.port = end.peer = null;
        if (peer === null) return;
        peer.peer = null;
        ops.taskStart(() => {
          if (peer.port !== null) deliver(peer.port, new Event("close"));
        });
      }
    }
    expose(MessagePort);

    class MessageChannel {
      #port1 = new MessagePort(CREATE);
      #port2 = new MessagePort(CREATE);

      constructor() {
        const first = newEnd();
        const second = newEnd();
        first.peer = second;
        second.peer = first;
        entangle(this.#port1, first);
        entangle(this.#port2, second);
      }

      get port1() {
        return this.#port1;
      }
      get port2() {
        return this.#port2;
      }
    }
    expose(MessageChannel);

    const { movers } = internal;
    movers[movers.length++] = (value) => {
      if (!isPort(value)) return null;
      return () => {
        const end = detach(value);
        if (end === null) {
          throw new (internal.exceptions().DOMException)("A port that was closed or transferred cannot be transferred", "DataCloneError");
        }
        end.enabled = false;
        return entangle(new MessagePort(CREATE), end);
      };
    };
    return { MessageChannel, MessagePort, isPort };
  });
})
