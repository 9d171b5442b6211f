// navigator, queueMicrotask (HTML §8.7) and scheduler.wait, as in Cloudflare Workers.
//: after abort.js
(function (internal) {
  "use strict";

  const { ObjectFreeze, Promise, PromisePrototypeThen, PromiseResolve, ReflectApply, TypeError } = internal.primordials;
  const { dictionary, expose, needs } = internal.webidl;

  const LANGUAGES = ObjectFreeze(["en"]);
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
    // A Worker runs on one thread, regardless of how many processors the machine has.
    get hardwareConcurrency() {
      this.#brand;
      return 1;
    }
    get language() {
      this.#brand;
      return "en";
    }
    get languages() {
      this.#brand;
      return LANGUAGES;
    }
  }
  expose(Navigator);

  internal.globals({
    Navigator,
    navigator: new Navigator(CREATE),

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

  // `scheduler.wait(milliseconds, { signal })` returns a promise that a timer resolves.
  const { clearTimeout, setTimeout } = /** @type {any} */ (globalThis);
  internal.later("scheduling", ["Scheduler", "scheduler"], () => {
    class Scheduler {
      #brand = true;

      constructor(key = undefined) {
        if (key !== CREATE) throw illegal();
      }

      async wait(delay, options = undefined) {
        this.#brand;
        needs(arguments.length, 1, "scheduler.wait");
        const { signal } = dictionary(options, "scheduler.wait");
        if (signal === undefined || signal === null) {
          return await new Promise((resolve) => setTimeout(resolve, delay));
        }
        const { abortReason, isAbortSignal, isAborted, onAbort } = internal.abort();
        if (!isAbortSignal(signal)) throw new TypeError("scheduler.wait: signal is not an AbortSignal");
        if (isAborted(signal)) throw abortReason(signal);
        return await new Promise((resolve, reject) => {
          const timer = setTimeout(() => {
            forget();
            resolve();
          }, delay);
          const forget = onAbort(signal, (reason) => {
            clearTimeout(timer);
            reject(reason);
          });
        });
      }
    }
    expose(Scheduler);
    return { Scheduler, scheduler: new Scheduler(CREATE) };
  });
})
