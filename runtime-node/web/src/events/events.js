// Events (DOM §2): Event, CustomEvent, EventTarget, and the global scope as an event target. There
// is no tree, so an event has one target and no path.
//: after describe.js domexception.js
(function (internal) {
  "use strict";

  const {
    ArrayPrototypePush, ArrayPrototypeSplice, DateNow, Map, MapPrototypeGet, MapPrototypeSet, ObjectDefineProperty,
    ObjectGetOwnPropertyDescriptor, ReflectApply, TypeError,
  } = internal.primordials;
  const { DOMString, dictionary, expose, handler, isObject, needs } = internal.webidl;

  internal.globals({ self: globalThis });
  // Returns the number of listeners of the global scope for a type. The number is zero until
  // `events` is created.
  internal.scopeListeners = () => 0;

  internal.later("events", [
    "CustomEvent", "Event", "EventTarget", "addEventListener", "dispatchEvent", "removeEventListener",
  ], () => {
    const NONE = 0, AT_TARGET = 2;

    let start; // (event, target, trusted): begins the delivery
    let finish; // (event)
    let stopped; // (event) → whether stopPropagation was called
    let stoppedNow; // (event) → whether stopImmediatePropagation was called
    let stopNow; // (event): stopImmediatePropagation
    let passive; // (event, boolean)
    let typeOf;
    let isCanceled;
    let cancel;
    let isEvent;
    let isBusy;
    let init; // (event, type, bubbles, cancelable)
    // The descriptor of each event's own property `isTrusted`, which cannot be redefined
    // (`[LegacyUnforgeable]`).
    let TRUSTED;

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
      #trusted = false;

      static {
        isEvent = (value) => isObject(value) && #type in value;
        isBusy = (event) => event.#dispatching;
        typeOf = (event) => event.#type;
        isCanceled = (event) => event.#canceled;
        cancel = (event) => {
          if (event.#cancelable && !event.#passive) event.#canceled = true;
        };
        start = (event, target, trusted) => {
          event.#dispatching = true;
          event.#trusted = trusted;
          event.#target = target;
          event.#phase = AT_TARGET;
        };
        finish = (event) => {
          event.#dispatching = false;
          event.#phase = NONE;
          event.#stop = event.#stopNow = false;
        };
        stopped = (event) => event.#stop;
        TRUSTED = ObjectGetOwnPropertyDescriptor({
          get isTrusted() {
            return this.#trusted;
          },
        }, "isTrusted");
        TRUSTED = { __proto__: null, get: TRUSTED.get, enumerable: true };
        stoppedNow = (event) => event.#stopNow;
        stopNow = (event) => {
          event.#stop = event.#stopNow = true;
        };
        passive = (event, value) => {
          event.#passive = value;
        };
        init = (event, type, bubbles, cancelable) => {
          event.#type = type;
          event.#bubbles = bubbles;
          event.#cancelable = cancelable;
          event.#canceled = event.#stop = event.#stopNow = event.#trusted = false;
          event.#target = null;
        };
      }

      constructor(type, options = undefined) {
        ObjectDefineProperty(this, "isTrusted", TRUSTED);
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
        this.#stop ||= !!value;
      }
      stopImmediatePropagation() {
        stopNow(this);
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
        this.#canceled; // a brand check
        if (!value) cancel(this);
      }
      preventDefault() {
        cancel(this);
      }
      get defaultPrevented() {
        return this.#canceled;
      }
      get composed() {
        return this.#composed;
      }
      get timeStamp() {
        return this.#time;
      }
      initEvent(type, bubbles = false, cancelable = false) {
        needs(arguments.length, 1, "Event.initEvent");
        const name = DOMString(type);
        if (!this.#dispatching) init(this, name, !!bubbles, !!cancelable);
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
      initCustomEvent(type, bubbles = false, cancelable = false, detail = null) {
        this.#detail; // a brand check
        needs(arguments.length, 1, "CustomEvent.initCustomEvent");
        const name = DOMString(type);
        if (isBusy(this)) return;
        init(this, name, !!bubbles, !!cancelable);
        this.#detail = detail;
      }
    }
    expose(CustomEvent);

    // ---- Targets

    let deliver; // (target, event, receiver, trusted) → false if the default was prevented
    let listeners; // (target, type) → the number of listeners
    let install; // (target, type, callback): sets an `on…` handler, which keeps its position
    let listen; // addEventListener for any target
    let unlisten;
    let onListen; // (target, callback): sets what is called when a listener is added

    class EventTarget {
      // Maps a type to a list of listeners. Null until the first listener is added, because most
      // targets never have any.
      #types = null;
      #watch = null;

      static {
        onListen = (target, callback) => {
          target.#watch = callback;
        };

        const add = (target, all, listener) => {
          ArrayPrototypePush(all, listener);
          if (target.#watch !== null) target.#watch();
        };

        const find = (list, callback, capture) => {
          for (let i = 0; i < list.length; i++) {
            if (list[i].callback === callback && list[i].capture === capture && !list[i].handler) return i;
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
          if (callback !== null && callback !== undefined && !isObject(callback)) {
            throw new TypeError("addEventListener: the listener is not an object");
          }
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
          if (signal !== undefined && internal.abort().isAborted(signal)) return;
          const all = list(target, type);
          if (find(all, callback, capture) >= 0) return;
          add(target, all, { callback, capture, once, passive: isPassive, handler: false, removed: false });
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
          add(target, all, entry);
        };

        listeners = (target, type) => {
          if (target.#types === null) return 0;
          return MapPrototypeGet(target.#types, type)?.length ?? 0;
        };

        // Calls one listener.
        const call = ({ callback, handler: isHandler }, event, receiver) => {
          try {
            if (typeof callback === "function") {
              const result = ReflectApply(callback, receiver, [event]);
              if (isHandler && result === false) cancel(event);
            } else if (!isHandler) {
              const { handleEvent } = callback;
              if (typeof handleEvent !== "function") throw new TypeError("the listener has no handleEvent method");
              ReflectApply(handleEvent, callback, [event]);
            }
          } catch (error) {
            internal.reportError(error);
          }
        };

        const callAll = (target, all, event, receiver, capture) => {
          if (stopped(event)) return;
          // Listeners that are added while this function runs wait for its next call; listeners
          // that are removed meanwhile are not called.
          const now = [];
          for (let i = 0; i < all.length; i++) if (all[i].capture === capture) now[now.length] = all[i];
          for (let i = 0; i < now.length && !stoppedNow(event); i++) {
            const listener = now[i];
            if (listener.removed) continue;
            if (listener.once) unlisten(target, typeOf(event), listener.callback, capture);
            passive(event, listener.passive);
            call(listener, event, receiver);
            passive(event, false);
          }
        };

        deliver = (target, event, receiver, trusted) => {
          start(event, receiver, trusted);
          const all = target.#types === null ? undefined : MapPrototypeGet(target.#types, typeOf(event));
          // Capturing listeners come first.
          if (all !== undefined) {
            callAll(target, all, event, receiver, true);
            callAll(target, all, event, receiver, false);
          }
          finish(event);
          return !isCanceled(event);
        };
      }

      /** @this {any} */
      addEventListener(type, callback, options = undefined) {
        const target = this === undefined || this === null || this === globalThis ? scope : this;
        target.#types; // a brand check
        needs(arguments.length, 2, "addEventListener");
        listen(target, DOMString(type), callback, options);
      }

      /** @this {any} */
      removeEventListener(type, callback, options = undefined) {
        const target = this === undefined || this === null || this === globalThis ? scope : this;
        target.#types; // a brand check
        needs(arguments.length, 2, "removeEventListener");
        unlisten(target, DOMString(type), callback, options);
      }

      /** @this {any} */
      dispatchEvent(event) {
        const isScope = this === undefined || this === null || this === globalThis;
        const target = isScope ? scope : this;
        target.#types; // a brand check
        needs(arguments.length, 1, "dispatchEvent");
        if (!isEvent(event)) throw new TypeError("dispatchEvent: the argument is not an Event");
        if (isBusy(event)) {
          throw new (internal.exceptions().DOMException)("The event is already being dispatched", "InvalidStateError");
        }
        return deliver(target, event, isScope ? globalThis : target, false);
      }
    }
    expose(EventTarget);
    internal.describe("Event", isEvent, Event, ["type", "cancelable", "defaultPrevented", "target"]);

    // The global scope is an event target, but has another prototype.
    const scope = new EventTarget();
    const { addEventListener, dispatchEvent, removeEventListener } = EventTarget.prototype;

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

    const deliverTo = (target, event) => deliver(target, event, target, true);
    // The listeners of the global scope: their number for `type`, delivery to them, and its `on…`
    // handlers.
    const scopeListeners = (type) => listeners(scope, type);
    internal.scopeListeners = scopeListeners;
    const deliverToScope = (event) => deliver(scope, event, globalThis, true);
    const installOnScope = (type, callback) => install(scope, type, callback);
    return {
      CustomEvent, Event, EventTarget, addEventListener, dispatchEvent, removeEventListener, cancel, deliver: deliverTo,
      deliverToScope, eventHandler, init, installOnScope, isBusy, isEvent, listeners, onListen, scopeListeners, stopNow,
    };
  });
})
