// Events (DOM §2): Event, CustomEvent, ErrorEvent, PromiseRejectionEvent, EventTarget, and the global scope as an
// event target. There is no tree, so an event has one target and no path.
(function (internal) {
  "use strict";

  const {
    ArrayPrototypePush, ArrayPrototypeSplice, DateNow, Map, MapPrototypeGet, MapPrototypeSet, ObjectDefineProperty,
    ObjectGetOwnPropertyDescriptor, ReflectApply, TypeError,
  } = internal.primordials;
  const { DOMString, dictionary, expose, handler, isObject, needs, unsigned } = internal.webidl;

  internal.globals({ self: globalThis });
  // An error nobody caught. Until there are events, nobody listens for one.
  internal.reportError = (error) => internal.ops.log("error", `Uncaught ${internal.inspect(error)}`);

  internal.events = internal.later([
    "CustomEvent", "ErrorEvent", "Event", "EventTarget", "PromiseRejectionEvent", "addEventListener", "dispatchEvent",
    "removeEventListener", "reportError",
  ], () => {
    const NONE = 0, AT_TARGET = 2;

    let start; // (event, target): the event is being delivered
    let finish; // (event)
    let stopped; // (event) → whether stopImmediatePropagation was called
    let passive; // (event, boolean)
    let isEvent;
    let busy;

    class Event {
      #type;
      #bubbles;
      #cancelable;
      #composed;
      #target = null;
      #phase = NONE;
      #time = 0;
      #canceled = false;
      #stop = false;
      #stopNow = false;
      #passive = false;
      #dispatching = false;

      static {
        isEvent = (value) => isObject(value) && #type in value;
        busy = (event) => event.#dispatching;
        start = (event, target) => {
          event.#dispatching = true;
          event.#target = target;
          event.#phase = AT_TARGET;
        };
        finish = (event) => {
          event.#dispatching = false;
          event.#phase = NONE;
          event.#stop = event.#stopNow = false;
        };
        stopped = (event) => event.#stopNow;
        passive = (event, value) => {
          event.#passive = value;
        };
      }

      constructor(type, options = undefined) {
        needs(arguments.length, 1, "Event");
        this.#type = DOMString(type);
        const { bubbles, cancelable, composed } = dictionary(options, "Event");
        this.#bubbles = !!bubbles;
        this.#cancelable = !!cancelable;
        this.#composed = !!composed;
        this.#time = DateNow();
      }

      get type() {
        return this.#type;
      }
      get target() {
        return this.#target;
      }
      get srcElement() {
        return this.#target;
      }
      get currentTarget() {
        return this.#phase === NONE ? null : this.#target;
      }
      composedPath() {
        return this.#phase === NONE ? [] : [this.#target];
      }
      get eventPhase() {
        return this.#phase;
      }
      stopPropagation() {
        this.#stop = true;
      }
      get cancelBubble() {
        return this.#stop;
      }
      set cancelBubble(value) {
        if (value) this.#stop = true;
      }
      stopImmediatePropagation() {
        this.#stop = this.#stopNow = true;
      }
      get bubbles() {
        return this.#bubbles;
      }
      get cancelable() {
        return this.#cancelable;
      }
      get returnValue() {
        return !this.#canceled;
      }
      set returnValue(value) {
        if (!value && this.#cancelable && !this.#passive) this.#canceled = true;
      }
      preventDefault() {
        if (this.#cancelable && !this.#passive) this.#canceled = true;
      }
      get defaultPrevented() {
        return this.#canceled;
      }
      get composed() {
        return this.#composed;
      }
      get isTrusted() {
        this.#type; // the brand
        return false;
      }
      get timeStamp() {
        return this.#time;
      }
      initEvent(type, bubbles = false, cancelable = false) {
        needs(arguments.length, 1, "Event.initEvent");
        if (this.#dispatching) return;
        this.#type = DOMString(type);
        this.#bubbles = !!bubbles;
        this.#cancelable = !!cancelable;
        this.#canceled = this.#stop = this.#stopNow = false;
        this.#target = null;
      }
    }
    expose(Event, { NONE: 0, CAPTURING_PHASE: 1, AT_TARGET: 2, BUBBLING_PHASE: 3 });

    class CustomEvent extends Event {
      #detail;
      constructor(type, options = undefined) {
        needs(arguments.length, 1, "CustomEvent");
        super(type, options);
        const { detail } = dictionary(options, "CustomEvent");
        this.#detail = detail === undefined ? null : detail;
      }
      get detail() {
        return this.#detail;
      }
    }
    expose(CustomEvent);

    class ErrorEvent extends Event {
      #message;
      #filename;
      #lineno;
      #colno;
      #error;
      constructor(type, options = undefined) {
        needs(arguments.length, 1, "ErrorEvent");
        super(type, options);
        const { colno, error, filename, lineno, message } = dictionary(options, "ErrorEvent");
        this.#message = message === undefined ? "" : DOMString(message);
        this.#filename = filename === undefined ? "" : DOMString(filename);
        this.#lineno = unsigned(lineno, 32);
        this.#colno = unsigned(colno, 32);
        this.#error = error;
      }
      get message() {
        return this.#message;
      }
      get filename() {
        return this.#filename;
      }
      get lineno() {
        return this.#lineno;
      }
      get colno() {
        return this.#colno;
      }
      get error() {
        return this.#error;
      }
    }
    expose(ErrorEvent);

    class PromiseRejectionEvent extends Event {
      #promise;
      #reason;
      constructor(type, options) {
        needs(arguments.length, 2, "PromiseRejectionEvent");
        super(type, options);
        const { promise, reason } = dictionary(options, "PromiseRejectionEvent");
        if (!isObject(promise)) throw new TypeError("PromiseRejectionEvent: options need a promise");
        this.#promise = promise;
        this.#reason = reason;
      }
      get promise() {
        return this.#promise;
      }
      get reason() {
        return this.#reason;
      }
    }
    expose(PromiseRejectionEvent);

    // ---- Targets

    let deliver; // (target, event, asWhom) → false if the default was prevented
    let listeners; // (target, type) → how many listen
    let install; // (target, type, callback): the place of an `on…` handler, kept when it is replaced
    let listen; // what addEventListener does, for any target
    let unlisten;

    class EventTarget {
      // From type to a list of listeners; null until the first one, for most targets never have any.
      #types = null;

      static {
        const find = (list, callback, capture) => {
          for (let i = 0; i < list.length; i++) {
            if (list[i].callback === callback && list[i].capture === capture) return i;
          }
          return -1;
        };

        const list = (target, type) => {
          target.#types ??= new Map();
          let found = MapPrototypeGet(target.#types, type);
          if (found === undefined) MapPrototypeSet(target.#types, type, found = []);
          return found;
        };

        listen = (target, type, callback, options) => {
          let capture = false, once = false, isPassive = false, signal;
          if (isObject(options)) {
            capture = !!options.capture;
            once = !!options.once;
            isPassive = !!options.passive;
            signal = options.signal;
            if (signal !== undefined && !internal.abort().isAbortSignal(signal)) {
              throw new TypeError("addEventListener: signal is not an AbortSignal");
            }
          } else {
            capture = !!options;
          }
          if (callback === null || callback === undefined) return;
          if (!isObject(callback)) throw new TypeError("addEventListener: the listener is not an object");
          if (signal !== undefined && internal.abort().isAborted(signal)) return;
          const all = list(target, type);
          if (find(all, callback, capture) >= 0) return;
          ArrayPrototypePush(all, { callback, capture, once, passive: isPassive, handler: false, removed: false });
          if (signal !== undefined) internal.abort().onAbort(signal, () => unlisten(target, type, callback, capture));
        };

        unlisten = (target, type, callback, options) => {
          const capture = isObject(options) ? !!options.capture : !!options;
          const all = target.#types === null ? undefined : MapPrototypeGet(target.#types, type);
          if (all === undefined) return;
          const at = find(all, callback, capture);
          if (at < 0) return;
          all[at].removed = true;
          ArrayPrototypeSplice(all, at, 1);
        };

        install = (target, type, callback) => {
          const all = list(target, type);
          for (let i = 0; i < all.length; i++) {
            if (!all[i].handler) continue;
            if (callback === null) {
              all[i].removed = true;
              ArrayPrototypeSplice(all, i, 1);
            } else {
              all[i].callback = callback;
            }
            return;
          }
          if (callback === null) return;
          const entry = { callback, capture: false, once: false, passive: false, handler: true, removed: false };
          ArrayPrototypePush(all, entry);
        };

        listeners = (target, type) => {
          if (target.#types === null) return 0;
          return MapPrototypeGet(target.#types, type)?.length ?? 0;
        };

        deliver = (target, event, asWhom) => {
          start(event, asWhom);
          const all = target.#types === null ? undefined : MapPrototypeGet(target.#types, event.type);
          if (all !== undefined && all.length > 0) {
            // What is added during delivery waits for the next event; what is removed is not called any more.
            const now = [];
            for (let i = 0; i < all.length; i++) now[i] = all[i];
            for (let i = 0; i < now.length && !stopped(event); i++) {
              const listener = now[i];
              if (listener.removed) continue;
              if (listener.once) unlisten(target, event.type, listener.callback, listener.capture);
              passive(event, listener.passive);
              try {
                const { callback } = listener;
                if (typeof callback === "function") {
                  const result = ReflectApply(callback, asWhom, [event]);
                  if (listener.handler && result === false) event.preventDefault();
                } else {
                  const { handleEvent } = callback;
                  if (typeof handleEvent !== "function") {
                    throw new TypeError("the listener has no handleEvent method");
                  }
                  ReflectApply(handleEvent, callback, [event]);
                }
              } catch (error) {
                internal.reportError(error);
              }
              passive(event, false);
            }
          }
          finish(event);
          return !event.defaultPrevented;
        };
      }

      addEventListener(type, callback, options = undefined) {
        const target = this === undefined || this === null || this === globalThis ? scope : this;
        target.#types; // the brand
        needs(arguments.length, 2, "addEventListener");
        listen(target, DOMString(type), callback, options);
      }

      removeEventListener(type, callback, options = undefined) {
        const target = this === undefined || this === null || this === globalThis ? scope : this;
        target.#types; // the brand
        needs(arguments.length, 2, "removeEventListener");
        unlisten(target, DOMString(type), callback, options);
      }

      dispatchEvent(event) {
        const isScope = this === undefined || this === null || this === globalThis;
        const target = isScope ? scope : this;
        target.#types; // the brand
        needs(arguments.length, 1, "dispatchEvent");
        if (!isEvent(event)) throw new TypeError("dispatchEvent: the argument is not an Event");
        if (busy(event)) {
          throw new (internal.exceptions().DOMException)("The event is already being dispatched", "InvalidStateError");
        }
        return deliver(target, event, isScope ? globalThis : target);
      }
    }
    expose(EventTarget);
    internal.describe("Event", isEvent, Event, ["type", "cancelable", "defaultPrevented", "target"]);

    // The global scope listens too: it is an event target in all but its prototype.
    const scope = new EventTarget();
    const { addEventListener, dispatchEvent, removeEventListener } = EventTarget.prototype;

    // An error nobody caught: an `error` event on the global scope, then the log.
    internal.reportError = (error) => {
      let shown = true;
      if (listeners(scope, "error") > 0 && !reporting) {
        reporting = true;
        try {
          const message = internal.inspect(error);
          const event = new ErrorEvent("error", { __proto__: null, cancelable: true, error, message });
          shown = deliver(scope, event, globalThis);
        } finally {
          reporting = false;
        }
      }
      if (shown) internal.ops.log("error", `Uncaught ${internal.inspect(error)}`);
    };
    let reporting = false;
    const { reportError } = {
      reportError(error) {
        needs(arguments.length, 1, "reportError");
        internal.reportError(error);
      },
    };

    // Declares the attribute `on<type>` of an interface.
    const eventHandler = (constructor, type, handlers) => {
      const accessors = {
        get [`on${type}`]() {
          return handlers.get(this);
        },
        set [`on${type}`](value) {
          const callback = handler(value);
          handlers.set(this, callback);
          install(this, type, callback);
        },
      };
      const { get, set } = ObjectGetOwnPropertyDescriptor(accessors, `on${type}`);
      const descriptor = { __proto__: null, get, set, enumerable: true, configurable: true };
      ObjectDefineProperty(constructor.prototype, `on${type}`, descriptor);
    };

    const deliverTo = (target, event) => deliver(target, event, target);
    // How many listen on the global scope for `type`, and delivery to them.
    const scopeListeners = (type) => listeners(scope, type);
    const deliverToScope = (event) => deliver(scope, event, globalThis);
    return {
      CustomEvent, ErrorEvent, Event, EventTarget, PromiseRejectionEvent, addEventListener, dispatchEvent,
      removeEventListener, reportError, deliver: deliverTo, deliverToScope, eventHandler, isEvent, scopeListeners,
    };
  });
})
