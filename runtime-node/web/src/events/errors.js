// Uncaught errors (HTML §8.1.4): `reportError`, and the events `error`, `unhandledrejection` and
// `rejectionhandled` of the global scope. An error whose event's default is prevented is not
// logged.
//: after events.js
(function (internal) {
  "use strict";

  const { ObjectDefineProperty, ReflectApply, TypeError } = internal.primordials;
  const { DOMString, dictionary, expose, handler, isObject, needs, unsigned } = internal.webidl;
  const { hooks, ops } = internal;

  internal.reportError = (error) => {
    if (internal.scopeListeners("error") > 0 && internal.errors().announce(error)) return;
    ops.log("error", `Uncaught ${internal.inspect(error)}`);
  };

  // At the end of a turn, native code asks, for each rejected promise without a handler, whether a
  // listener prevents the default, which is to log the reason. Native code calls this hook again if
  // such a promise gets a handler later.
  hooks.rejection = (promise, reason, isHandled) => {
    const type = isHandled ? "rejectionhandled" : "unhandledrejection";
    return internal.scopeListeners(type) > 0 && internal.errors().rejection(type, promise, reason);
  };

  // The `on…` handlers of the global scope.
  const handlers = { __proto__: null };
  const attribute = (type) => {
    const get = () => handlers[type] ?? null;
    const set = (value) => {
      const callback = handler(value);
      handlers[type] = callback;
      internal.errors().install(type, callback);
    };
    ObjectDefineProperty(globalThis, `on${type}`, { __proto__: null, get, set, enumerable: true, configurable: true });
  };
  attribute("error");
  attribute("rejectionhandled");
  attribute("unhandledrejection");

  internal.later("errors", ["ErrorEvent", "PromiseRejectionEvent", "reportError"], () => {
    const { Event, cancel, deliverToScope, installOnScope } = internal.events();
    let detailsOf; // (event) → the arguments of an `onerror` handler; null for any other event

    class ErrorEvent extends Event {
      #message;
      #filename;
      #lineno;
      #colno;
      #error;

      static {
        detailsOf = (event) => (isObject(event) && #message in event
          ? [event.#message, event.#filename, event.#lineno, event.#colno, event.#error] : null);
      }

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

    // Fires an `error` event. Returns whether a listener prevented its default. An error that is
    // thrown while the event is dispatched fires no event.
    let announcing = false;
    const announce = (error) => {
      if (announcing) return false;
      announcing = true;
      try {
        const { message, file: filename, line: lineno, column: colno } = ops.whereThrown(error);
        const options = { __proto__: null, cancelable: true, error, message, filename, lineno, colno };
        return !deliverToScope(new ErrorEvent("error", options));
      } finally {
        announcing = false;
      }
    };

    const rejection = (type, promise, reason) => {
      const cancelable = type === "unhandledrejection";
      return !deliverToScope(new PromiseRejectionEvent(type, { __proto__: null, cancelable, promise, reason }));
    };

    // Installs an `on…` handler. `onerror` is called with the details of an ErrorEvent.
    const install = (type, callback) => {
      if (callback === null || type !== "error") return installOnScope(type, callback);
      installOnScope(type, (event) => {
        const details = detailsOf(event);
        if (typeof callback !== "function") return undefined;
        if (details === null) return ReflectApply(callback, globalThis, [event]);
        // Returning true from `onerror` prevents the default.
        if (ReflectApply(callback, globalThis, details) === true) cancel(event);
        return undefined;
      });
    };

    const { reportError } = {
      reportError(error) {
        needs(arguments.length, 1, "reportError");
        internal.reportError(error);
      },
    };
    return { ErrorEvent, PromiseRejectionEvent, announce, install, rejection, reportError };
  });
})
