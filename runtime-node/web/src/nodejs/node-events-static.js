// node:events, continued: `once`, `on` and the other functions for emitters and event targets.
//: module
(function (internal) {
  "use strict";

  const {
    ArrayPrototypePush, ArrayPrototypeShift, AsyncIteratorPrototype, ObjectSetPrototypeOf, Promise, PromiseReject,
    PromiseResolve, SymbolAsyncIterator, SymbolDispose,
  } = internal.primordials;
  const { queueMicrotask } = internal.platform;

  internal.define("eventStatics", () => (EventEmitter) => {
    const { abortError, invalid, needFunction, needObject, needSignal, outOfRange } = internal.node;

    // Adds `listener` to an emitter or an event target. Returns a function that removes the
    // listener.
    function listen(emitter, type, listener, { once = false } = {}) {
      if (typeof emitter?.on === "function") {
        if (once) emitter.once(type, listener);
        else emitter.on(type, listener);
        return () => emitter.removeListener(type, listener);
      }
      if (typeof emitter?.addEventListener !== "function") {
        throw invalid("emitter", "an instance of EventEmitter or EventTarget", emitter);
      }
      emitter.addEventListener(type, listener, { once });
      return () => emitter.removeEventListener(type, listener);
    }

    function signalOf(options) {
      needObject(options, "options");
      const { signal } = options;
      return signal === undefined ? undefined : needSignal(signal, "options.signal");
    }

    EventEmitter.once = async (emitter, type, options = {}) => {
      const signal = signalOf(options);
      const { isAborted, onAbort } = internal.abort();
      if (signal !== undefined && isAborted(signal)) throw abortError(signal);
      return await new Promise((resolve, reject) => {
        const undo = [];
        const settle = (how) => (value) => {
          while (undo.length > 0) ArrayPrototypeShift(undo)();
          how(value);
        };
        const done = settle(resolve);
        const failed = settle(reject);
        ArrayPrototypePush(undo, listen(emitter, type, (...args) => done(args), { once: true }));
        if (type !== "error" && typeof emitter.once === "function") {
          ArrayPrototypePush(undo, listen(emitter, "error", failed, { once: true }));
        }
        if (signal !== undefined) ArrayPrototypePush(undo, onAbort(signal, () => failed(abortError(signal))));
      });
    };

    EventEmitter.on = (emitter, type, options = {}) => {
      const signal = signalOf(options);
      const { isAborted, onAbort } = internal.abort();
      if (signal !== undefined && isAborted(signal)) throw abortError(signal);
      // Events that no `next()` has taken yet, or calls of `next()` that await an event. At most
      // one of the two lists has items.
      const events = [];
      const waiting = [];
      const undo = [];
      let failure = null;
      let finished = false;

      const removeListeners = () => {
        while (undo.length > 0) ArrayPrototypeShift(undo)();
      };
      const finish = () => {
        removeListeners();
        finished = true;
        while (waiting.length > 0) ArrayPrototypeShift(waiting).resolve({ value: undefined, done: true });
        return PromiseResolve({ value: undefined, done: true });
      };
      const fail = (error) => {
        removeListeners();
        if (waiting.length > 0) {
          finished = true;
          ArrayPrototypeShift(waiting).reject(error);
          finish();
        } else {
          failure = { error };
        }
      };
      const onEvent = (...args) => {
        if (waiting.length > 0) ArrayPrototypeShift(waiting).resolve({ value: args, done: false });
        else ArrayPrototypePush(events, args);
      };

      const iterator = ObjectSetPrototypeOf({
        next() {
          if (events.length > 0) return PromiseResolve({ value: ArrayPrototypeShift(events), done: false });
          if (failure !== null) {
            const { error } = failure;
            failure = null;
            finished = true;
            return PromiseReject(error);
          }
          if (finished) return finish();
          return new Promise((resolve, reject) => ArrayPrototypePush(waiting, { resolve, reject }));
        },
        return() {
          return finish();
        },
        throw(error) {
          fail(error);
          return PromiseResolve({ value: undefined, done: true });
        },
        [SymbolAsyncIterator]() {
          return this;
        },
      }, AsyncIteratorPrototype);

      ArrayPrototypePush(undo, listen(emitter, type, onEvent));
      if (type !== "error" && typeof emitter.on === "function") ArrayPrototypePush(undo, listen(emitter, "error", fail));
      const closeEvents = options.close ?? [];
      for (let i = 0; i < closeEvents.length; i++) ArrayPrototypePush(undo, listen(emitter, closeEvents[i], finish));
      if (signal !== undefined) ArrayPrototypePush(undo, onAbort(signal, () => fail(abortError(signal))));
      return iterator;
    };

    EventEmitter.getEventListeners = (emitter, type) => {
      if (typeof emitter?.listeners === "function") return emitter.listeners(type);
      throw invalid("emitter", "an instance of EventEmitter", emitter);
    };
    EventEmitter.listenerCount = (emitter, type) => emitter.listenerCount(type);
    EventEmitter.getMaxListeners = (emitter) => {
      if (typeof emitter?.getMaxListeners === "function") return emitter.getMaxListeners();
      throw invalid("emitter", "an instance of EventEmitter", emitter);
    };
    EventEmitter.setMaxListeners = (n = EventEmitter.defaultMaxListeners, ...emitters) => {
      if (typeof n !== "number" || !(n >= 0)) throw outOfRange("setMaxListeners", "a non-negative number", n);
      if (emitters.length === 0) EventEmitter.defaultMaxListeners = n;
      for (let i = 0; i < emitters.length; i++) {
        // Event targets have no limit on listeners.
        if (typeof emitters[i]?.setMaxListeners === "function") emitters[i].setMaxListeners(n);
      }
    };
    EventEmitter.addAbortListener = (signal, listener) => {
      needSignal(signal, "signal");
      needFunction(listener, "listener");
      const { isAborted } = internal.abort();
      if (isAborted(signal)) {
        queueMicrotask(() => listener());
        return { [SymbolDispose]() {} };
      }
      signal.addEventListener("abort", listener, { once: true });
      return {
        [SymbolDispose]() {
          signal.removeEventListener("abort", listener);
        },
      };
    };

    class EventEmitterAsyncResource extends EventEmitter {
      #resource;
      constructor(options = {}) {
        const { AsyncResource } = internal.use("async_hooks");
        super(options);
        const name = typeof options === "string" ? options : options?.name ?? new.target.name;
        this.#resource = new AsyncResource(name, options);
      }
      emit(type, ...args) {
        return this.#resource.runInAsyncScope(super.emit, this, type, ...args);
      }
      emitDestroy() {
        this.#resource.emitDestroy();
      }
      get asyncId() {
        return this.#resource.asyncId();
      }
      get triggerAsyncId() {
        return this.#resource.triggerAsyncId();
      }
      get asyncResource() {
        return this.#resource;
      }
    }
    EventEmitter.EventEmitterAsyncResource = EventEmitterAsyncResource;
  });
})
