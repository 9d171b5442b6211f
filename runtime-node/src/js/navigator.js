// navigator, performance and queueMicrotask: the small things that every program expects to find.
(function (internal) {
  "use strict";

  const { DateNow, PromisePrototypeThen, PromiseResolve, ReflectApply, TypeError } = internal.primordials;
  const { expose, needs } = internal.webidl;

  const CREATE = { __proto__: null };
  const illegal = () => new TypeError("Illegal constructor");

  class Navigator {
    #brand = true;
    constructor(key = undefined) {
      if (key !== CREATE) throw illegal();
    }
    get userAgent() {
      this.#brand;
      return "Tenon";
    }
  }
  expose(Navigator);

  class Performance {
    #brand = true;
    constructor(key = undefined) {
      if (key !== CREATE) throw illegal();
    }
    // The clock counts from zero, so that nothing can be learnt from when an isolate was made.
    get timeOrigin() {
      this.#brand;
      return 0;
    }
    now() {
      this.#brand;
      return DateNow();
    }
    toJSON() {
      this.#brand;
      return { timeOrigin: 0 };
    }
  }
  expose(Performance);

  internal.globals({
    Navigator,
    Performance,
    navigator: new Navigator(CREATE),
    performance: new Performance(CREATE),

    queueMicrotask(callback) {
      needs(arguments.length, 1, "queueMicrotask");
      if (typeof callback !== "function") throw new TypeError("queueMicrotask: the callback is not a function");
      PromisePrototypeThen(PromiseResolve(undefined), () => {
        try {
          ReflectApply(callback, undefined, []);
        } catch (error) {
          internal.reportError(error);
        }
      });
    },
  });
})
