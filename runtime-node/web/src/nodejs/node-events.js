// node:events: EventEmitter. The static functions are in node-events-static.js.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayPrototypePush, ArrayPrototypeSlice, ArrayPrototypeSplice, ArrayPrototypeUnshift, Error, ObjectDefineProperty,
    ObjectGetPrototypeOf, ReflectApply, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, Symbol,
  } = internal.primordials;
  const { queueMicrotask } = internal.platform;

  internal.define("events", () => {
    const { REJECTION, coded, defineHidden, invalid, needFunction, outOfRange } = internal.node;

    const MONITOR = Symbol("events.errorMonitor");
    const CAPTURE = Symbol("kCapture");
    let defaultMaxListeners = 10;
    let captureAll = false;

    function needCount(value, name) {
      if (typeof value !== "number" || value !== value || value < 0) throw outOfRange(name, "a non-negative number", value);
      return value;
    }

    // EventEmitter is a function and not a class, so that constructor functions can call it to
    // inherit from it.
    function EventEmitter(options) {
      ReflectApply(EventEmitter.init, this, [options]);
    }

    /** @this {any} */
    EventEmitter.init = function (options) {
      // An `_events` that is inherited from the prototype is another emitter's.
      if (this._events === undefined || this._events === ObjectGetPrototypeOf(this)._events) {
        this._events = { __proto__: null };
        this._eventsCount = 0;
      }
      this._maxListeners ??= undefined;
      const captures = options?.captureRejections;
      if (captures !== undefined && typeof captures !== "boolean") {
        throw invalid("options.captureRejections", "of type boolean", captures);
      }
      defineHidden(this, { [CAPTURE]: captures ?? captureAll });
    };

    const limitOf = (emitter) => emitter._maxListeners ?? defaultMaxListeners;
    // Returns the listeners of a type, or `undefined` if there are none. The list may be the
    // emitter's own, so callers do not change it.
    const listOf = (emitter, type) => {
      const list = emitter._events?.[type];
      return typeof list === "function" ? [list] : list;
    };

    function warn(emitter, type, list) {
      const limit = limitOf(emitter);
      if (limit === 0 || list.length <= limit || list.warned) return;
      list.warned = true;
      const name = ObjectGetPrototypeOf(emitter)?.constructor?.name ?? "EventEmitter";
      internal.console.warn(
        `MaxListenersExceededWarning: Possible EventEmitter memory leak detected. ${list.length} ${
          typeof type === "symbol" ? internal.inspect(type) : type} listeners added to [${name}]. MaxListeners is ${
          limit}. Use emitter.setMaxListeners() to increase limit`);
    }

    function add(emitter, type, listener, first) {
      needFunction(listener, "listener");
      if (emitter._events === undefined) {
        emitter._events = { __proto__: null };
        emitter._eventsCount = 0;
      } else if (emitter._events.newListener !== undefined) {
        emitter.emit("newListener", type, listener.listener ?? listener);
      }
      const before = listOf(emitter, type);
      if (before === undefined) {
        emitter._events[type] = listener;
        emitter._eventsCount++;
        return emitter;
      }
      // Each change creates a new list, so that a delivery in progress continues with the listeners
      // with which it began.
      /** @type {any[] & { warned?: boolean }} */
      const list = ArrayPrototypeSlice(before);
      list.warned = before.warned;
      if (first) ArrayPrototypeUnshift(list, listener);
      else ArrayPrototypePush(list, listener);
      emitter._events[type] = list;
      warn(emitter, type, list);
      return emitter;
    }

    function remove(emitter, type, at) {
      const before = listOf(emitter, type);
      const removed = before[at];
      if (before.length === 1) {
        emitter._eventsCount--;
        delete emitter._events[type];
      } else {
        /** @type {any[] & { warned?: boolean }} */
        const list = ArrayPrototypeSlice(before);
        list.warned = before.warned;
        ArrayPrototypeSplice(list, at, 1);
        emitter._events[type] = list;
      }
      if (emitter._events.removeListener !== undefined) {
        emitter.emit("removeListener", type, removed.listener ?? removed);
      }
    }

    function onceWrapped(emitter, type, listener) {
      needFunction(listener, "listener");
      let fired = false;
      const wrapped = function (...args) {
        if (fired) return undefined;
        fired = true;
        emitter.removeListener(type, wrapped);
        return ReflectApply(listener, this, args);
      };
      wrapped.listener = listener;
      return wrapped;
    }

    function unhandledError(error) {
      if (error instanceof Error) return error;
      const failure = coded(Error, "ERR_UNHANDLED_ERROR", `Unhandled error. (${
        typeof error === "string" ? `'${error}'` : internal.inspect(error)})`);
      failure.context = error;
      return failure;
    }

    // Forwards the rejection of an async listener's promise to the emitter.
    function capture(emitter, promise, type, args) {
      let then;
      try {
        then = promise.then;
        if (typeof then !== "function") return;
        ReflectApply(then, promise, [undefined, (error) => queueMicrotask(() => rejected(emitter, error, type, args))]);
      } catch (error) {
        emitter.emit("error", error);
      }
    }
    function rejected(emitter, error, type, args) {
      if (typeof emitter[REJECTION] === "function") {
        emitter[REJECTION](error, type, ...args);
        return;
      }
      // The promises that the listeners of `error` return are not captured, so that a listener that
      // rejects is not called again and again.
      const before = emitter[CAPTURE];
      try {
        emitter[CAPTURE] = false;
        emitter.emit("error", error);
      } finally {
        emitter[CAPTURE] = before;
      }
    }

    defineHidden(EventEmitter.prototype, {
      _events: undefined,
      _eventsCount: 0,
      _maxListeners: undefined,
    });
    const members = {
      setMaxListeners(n) {
        this._maxListeners = needCount(n, "setMaxListeners");
        return this;
      },
      getMaxListeners() {
        return limitOf(this);
      },
      emit(type, ...args) {
        const events = this._events;
        if (type === "error") {
          if (events?.[MONITOR] !== undefined) this.emit(MONITOR, ...args);
          if (events?.error === undefined) throw unhandledError(args[0]);
        }
        const list = events?.[type];
        if (list === undefined) return false;
        const captures = this[CAPTURE];
        if (typeof list === "function") {
          const result = ReflectApply(list, this, args);
          if (captures && result !== undefined && result !== null) capture(this, result, type, args);
          return true;
        }
        for (let i = 0; i < list.length; i++) {
          const result = ReflectApply(list[i], this, args);
          if (captures && result !== undefined && result !== null) capture(this, result, type, args);
        }
        return true;
      },
      addListener(type, listener) {
        return add(this, type, listener, false);
      },
      prependListener(type, listener) {
        return add(this, type, listener, true);
      },
      once(type, listener) {
        return this.on(type, onceWrapped(this, type, listener));
      },
      prependOnceListener(type, listener) {
        return this.prependListener(type, onceWrapped(this, type, listener));
      },
      removeListener(type, listener) {
        needFunction(listener, "listener");
        const list = listOf(this, type);
        if (list === undefined) return this;
        for (let i = list.length - 1; i >= 0; i--) {
          if (list[i] !== listener && list[i].listener !== listener) continue;
          remove(this, type, i);
          break;
        }
        return this;
      },
      removeAllListeners(type) {
        const events = this._events;
        if (events === undefined) return this;
        if (events.removeListener === undefined) {
          if (arguments.length === 0) {
            this._events = { __proto__: null };
            this._eventsCount = 0;
          } else if (events[type] !== undefined) {
            delete events[type];
            this._eventsCount--;
          }
          return this;
        }
        if (arguments.length === 0) {
          const types = ReflectOwnKeys(events);
          for (let i = 0; i < types.length; i++) {
            if (types[i] !== "removeListener") this.removeAllListeners(types[i]);
          }
          this.removeAllListeners("removeListener");
          return this;
        }
        const list = listOf(this, type) ?? [];
        for (let i = list.length - 1; i >= 0; i--) this.removeListener(type, list[i]);
        return this;
      },
      listeners(type) {
        const list = ArrayPrototypeSlice(listOf(this, type) ?? []);
        for (let i = 0; i < list.length; i++) list[i] = list[i].listener ?? list[i];
        return list;
      },
      rawListeners(type) {
        return ArrayPrototypeSlice(listOf(this, type) ?? []);
      },
      listenerCount(type, listener = undefined) {
        const list = listOf(this, type) ?? [];
        if (listener === undefined || listener === null) return list.length;
        let count = 0;
        for (let i = 0; i < list.length; i++) if (list[i] === listener || list[i].listener === listener) count++;
        return count;
      },
      eventNames() {
        return this._eventsCount > 0 ? ReflectOwnKeys(this._events) : [];
      },
    };
    members.on = members.addListener;
    members.off = members.removeListener;
    const { prototype } = EventEmitter;
    const names = ReflectOwnKeys(members);
    for (let i = 0; i < names.length; i++) prototype[names[i]] = members[names[i]];

    defineHidden(prototype, { [CAPTURE]: false });
    EventEmitter.EventEmitter = EventEmitter;
    EventEmitter.errorMonitor = MONITOR;
    EventEmitter.captureRejectionSymbol = REJECTION;
    const settings = {
      get defaultMaxListeners() {
        return defaultMaxListeners;
      },
      set defaultMaxListeners(value) {
        defaultMaxListeners = needCount(value, "defaultMaxListeners");
      },
      get captureRejections() {
        return captureAll;
      },
      set captureRejections(value) {
        if (typeof value !== "boolean") throw invalid("EventEmitter.captureRejections", "of type boolean", value);
        captureAll = value;
      },
    };
    for (const name of ["defaultMaxListeners", "captureRejections"]) {
      ObjectDefineProperty(EventEmitter, name, ReflectGetOwnPropertyDescriptor(settings, name));
    }
    internal.use("eventStatics")(EventEmitter);
    return EventEmitter;
  });
})
